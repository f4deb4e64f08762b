package webhook_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/webhook"
)

func mac(secret string, parts ...string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

func stamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// provider signs requests as one scheme does.
type provider struct {
	name     string
	verifier func(secrets ...string) webhook.Verifier
	sign     func(secret, id, body string, at time.Time) http.Header
	body     func(id string) string
	idSigned bool
	stamped  bool
}

func bytesOf(secrets []string) (out [][]byte) {
	for _, s := range secrets {
		out = append(out, []byte(s))
	}
	return out
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func plain(string) string { return `{"amount":3000}` }

func keyOf(secret string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(secret))
	return ed25519.NewKeyFromSeed(seed[:])
}

var providers = []provider{
	{
		name: "standard", idSigned: true, stamped: true, body: plain,
		verifier: func(s ...string) webhook.Verifier { return &webhook.Standard{Source: "p", Secrets: bytesOf(s)} },
		sign: func(secret, id, body string, at time.Time) http.Header {
			sig := base64.StdEncoding.EncodeToString(mac(secret, id, ".", stamp(at), ".", body))
			return header("webhook-id", id, "webhook-timestamp", stamp(at), "webhook-signature", "v1,bm9uZQ== v1,"+sig)
		},
	},
	{
		name: "standard ed25519", idSigned: true, stamped: true, body: plain,
		verifier: func(s ...string) webhook.Verifier {
			v := &webhook.Standard{Source: "p"}
			for _, secret := range s {
				v.PublicKeys = append(v.PublicKeys, keyOf(secret).Public().(ed25519.PublicKey))
			}
			return v
		},
		sign: func(secret, id, body string, at time.Time) http.Header {
			sig := ed25519.Sign(keyOf(secret), []byte(id+"."+stamp(at)+"."+body))
			return header("webhook-id", id, "webhook-timestamp", stamp(at), "webhook-signature", "v1a,"+base64.StdEncoding.EncodeToString(sig))
		},
	},
	{
		name: "stripe", idSigned: true, stamped: true,
		body:     func(id string) string { return fmt.Sprintf(`{"id":%q,"type":"charge.succeeded"}`, id) },
		verifier: func(s ...string) webhook.Verifier { return webhook.Stripe(bytesOf(s)...) },
		sign: func(secret, _, body string, at time.Time) http.Header {
			return header("Stripe-Signature", "t="+stamp(at)+",v1=00ff,v0=x,v1="+hex.EncodeToString(mac(secret, stamp(at), ".", body)))
		},
	},
	{
		name: "github", body: plain,
		verifier: func(s ...string) webhook.Verifier { return webhook.GitHub(bytesOf(s)...) },
		sign: func(secret, id, body string, _ time.Time) http.Header {
			return header("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(secret, body)), "X-GitHub-Delivery", id, "X-GitHub-Event", "push")
		},
	},
	{
		name: "shopify", body: plain,
		verifier: func(s ...string) webhook.Verifier { return webhook.Shopify(bytesOf(s)...) },
		sign: func(secret, id, body string, _ time.Time) http.Header {
			return header("X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac(secret, body)), "X-Shopify-Webhook-Id", id)
		},
	},
	{
		name: "configured", stamped: true, body: plain,
		verifier: func(s ...string) webhook.Verifier {
			return &webhook.HMAC{Source: "own", Secrets: bytesOf(s), Signature: "X-Sig", ID: "X-Id", Timestamp: "X-Time"}
		},
		sign: func(secret, id, body string, at time.Time) http.Header {
			return header("X-Sig", hex.EncodeToString(mac(secret, stamp(at), ".", body)), "X-Id", id, "X-Time", stamp(at))
		},
	},
	{
		name: "configured, ID in the body", idSigned: true,
		body: func(id string) string { return id + " paid" },
		verifier: func(s ...string) webhook.Verifier {
			return &webhook.HMAC{Source: "own", Secrets: bytesOf(s), Signature: "X-Sig", IDFrom: func(b []byte) string { id, _, _ := strings.Cut(string(b), " "); return id }}
		},
		sign: func(secret, _, body string, _ time.Time) http.Header {
			return header("X-Sig", hex.EncodeToString(mac(secret, body)))
		},
	},
}

// counting counts what reaches the store.
type counting struct {
	ibid.Store
	calls atomic.Int64
}

func (c *counting) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	c.calls.Add(1)
	return c.Store.Begin(ctx, key, claim)
}

func (c *counting) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	c.calls.Add(1)
	return c.Store.Look(ctx, key)
}

type endpoint struct {
	t       *testing.T
	handler http.Handler
	store   *counting
	effects atomic.Int64
	last    atomic.Pointer[webhook.Event]
	fail    func(context.Context) error // instead of the effect, when set
}

func newEndpoint(t *testing.T, v webhook.Verifier, opts *webhook.Options) *endpoint {
	t.Helper()
	e := &endpoint{t: t, store: &counting{Store: new(memstore.Store)}}
	engine, err := ibid.New(t.Context(), e.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.store.calls.Store(0)
	consumer, err := inbox.New(engine, "hooks", ibid.Retry, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.handler, err = webhook.New(consumer, v, func(ctx context.Context, ev webhook.Event) error {
		if e.fail != nil {
			return e.fail(ctx)
		}
		e.last.Store(&ev)
		e.effects.Add(1)
		return nil
	}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *endpoint) post(h http.Header, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(e.t.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header = h
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	return w
}

func (e *endpoint) want(h http.Header, body string, status int, effects int64) {
	e.t.Helper()
	if w := e.post(h, body); w.Code != status || e.effects.Load() != effects {
		e.t.Fatalf("status %d after %d effects, want %d after %d", w.Code, e.effects.Load(), status, effects)
	}
}

func TestEveryScheme(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, p.verifier("new", "old"), nil)
			now, body := time.Now(), p.body("evt1")

			// A forged request comes first, with the genuine ID, and leaves no trace.
			e.want(p.sign("guessed", "evt1", body, now), body, http.StatusUnauthorized, 0)
			e.want(http.Header{}, body, http.StatusUnauthorized, 0)
			tampered := p.sign("new", "evt1", body, now)
			e.want(tampered, body+" ", http.StatusUnauthorized, 0)
			e.want(p.sign("", "evt1", body, now), body, http.StatusUnauthorized, 0)
			if n := e.store.calls.Load(); n != 0 {
				t.Fatalf("%d calls of the store for forged requests", n)
			}

			e.want(p.sign("new", "evt1", body, now), body, http.StatusNoContent, 1)
			if ev := e.last.Load(); string(ev.Body) != body || ev.IDSigned != p.idSigned || ev.Source == "" {
				t.Errorf("event %+v", ev)
			}
			e.want(p.sign("new", "evt1", body, now), body, http.StatusNoContent, 1)
			e.want(p.sign("old", "evt1", body, now.Add(time.Second)), body, http.StatusNoContent, 1) // rotation; a retry's new timestamp

			if p.stamped {
				calls := e.store.calls.Load()
				e.want(p.sign("new", "evt2", p.body("evt2"), now.Add(-6*time.Minute)), p.body("evt2"), http.StatusUnauthorized, 1)
				e.want(p.sign("new", "evt2", p.body("evt2"), now.Add(6*time.Minute)), p.body("evt2"), http.StatusUnauthorized, 1)
				if n := e.store.calls.Load() - calls; n != 0 {
					t.Errorf("%d calls of the store for old requests", n)
				}
			}
		})
	}
}

// A captured request is signed as it stands. Who replays it may change whatever
// is not signed.
func TestACapturedBodyUnderAFreshIDIsRefused(t *testing.T) {
	t.Parallel()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, p.verifier("s"), nil)
			body := p.body("evt1")
			captured := p.sign("s", "evt1", body, time.Now())
			e.want(captured.Clone(), body, http.StatusNoContent, 1)
			for _, name := range []string{"webhook-id", "X-GitHub-Delivery", "X-Shopify-Webhook-Id", "X-Id"} {
				if captured.Get(name) != "" {
					captured.Set(name, "fresh")
				}
			}
			w := e.post(captured, body)
			if n := e.effects.Load(); n != 1 {
				t.Fatalf("a captured body ran again: %d effects", n)
			}
			if changed := p.name != "stripe" && p.name != "configured, ID in the body"; changed && w.Code < 400 {
				t.Errorf("status %d", w.Code)
			}
		})
	}
}

func TestFiveAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := providers[0]
		e := newEndpoint(t, p.verifier("s"), nil)
		e.fail = func(context.Context) error {
			time.Sleep(time.Second)
			e.effects.Add(1)
			return nil
		}
		body := p.body("evt1")
		var done sync.WaitGroup
		for range 5 {
			done.Go(func() {
				if w := e.post(p.sign("s", "evt1", body, time.Now()), body); w.Code != http.StatusNoContent {
					t.Errorf("status %d", w.Code)
				}
			})
		}
		done.Wait()
		if n := e.effects.Load(); n != 1 {
			t.Errorf("%d effects", n)
		}
	})
}

func TestInProgressIs503WithinThreeSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := providers[0]
		e := newEndpoint(t, p.verifier("s"), nil)
		e.fail = func(context.Context) error {
			time.Sleep(10 * time.Second)
			return nil
		}
		body := p.body("evt1")
		go e.post(p.sign("s", "evt1", body, time.Now()), body)
		synctest.Wait()
		start := time.Now()
		w := e.post(p.sign("s", "evt1", body, time.Now()), body)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || time.Since(start) > 3*time.Second {
			t.Errorf("status %d, Retry-After %q, after %v", w.Code, w.Header().Get("Retry-After"), time.Since(start))
		}
		time.Sleep(time.Minute)
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	p := providers[0]
	for _, row := range []struct {
		name   string
		fail   func(context.Context) error
		status int
	}{
		{"a transient error is retried by the provider", func(context.Context) error { return errors.New("down") }, http.StatusServiceUnavailable},
		{"a final one is not worth it", func(context.Context) error { return ibid.Final(errors.New("no such account")) }, http.StatusUnprocessableEntity},
		{"an effect that may have happened is taken over", func(ctx context.Context) error { ibid.EffectStarted(ctx); return errors.New("cut") }, http.StatusServiceUnavailable},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, p.verifier("s"), nil)
			e.fail = row.fail
			e.want(p.sign("s", "e", "b", time.Now()), "b", row.status, 0)
		})
	}
}

func TestRequestsThatAreNotRead(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	p := providers[0]
	e := newEndpoint(t, p.verifier("s"), &webhook.Options{MaxBody: 10, Refused: func(context.Context, *http.Request, error) { refused.Add(1) }})
	e.want(p.sign("s", "e", "0123456789", time.Now()), "0123456789", http.StatusNoContent, 1)
	e.want(p.sign("s", "f", "0123456789a", time.Now()), "0123456789a", http.StatusRequestEntityTooLarge, 1)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed || refused.Load() != 1 {
		t.Errorf("status %d, %d refused", w.Code, refused.Load())
	}
}

func TestSameSignedIDWithAnotherBodyIsRefused(t *testing.T) {
	t.Parallel()
	p := providers[0]
	e := newEndpoint(t, p.verifier("s"), nil)
	e.want(p.sign("s", "e", "a", time.Now()), "a", http.StatusNoContent, 1)
	e.want(p.sign("s", "e", "b", time.Now()), "b", http.StatusUnprocessableEntity, 1)
}

func TestNewRefusesAnImpatientProvidersConsumer(t *testing.T) {
	t.Parallel()
	engine, err := ibid.New(t.Context(), new(memstore.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := inbox.New(engine, "c", ibid.Retry, &inbox.Options{Policy: ibid.Policy{Wait: 4 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(context.Context, webhook.Event) error { return nil }
	if _, err := webhook.New(slow, webhook.Stripe([]byte("s")), handle, nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := webhook.New(slow, nil, handle, nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestStandardSecret(t *testing.T) {
	t.Parallel()
	secret, err := webhook.StandardSecret("whsec_" + base64.StdEncoding.EncodeToString([]byte("s")))
	if err != nil || !bytes.Equal(secret, []byte("s")) {
		t.Errorf("%q, %v", secret, err)
	}
	v := &webhook.Standard{Source: "p", Secrets: [][]byte{secret}}
	if _, err := v.Verify(header("webhook-id", "a.1", "webhook-timestamp", "1"), nil, time.Unix(1, 0)); !errors.Is(err, webhook.ErrNoID) {
		t.Errorf("an ID that could move the boundary of what is signed: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("v1,AAAA", "1", "id", []byte("{}"))
	f.Add("t=1,v1=00", "1", "", []byte(`{"id":"e"}`))
	f.Fuzz(func(t *testing.T, sig, ts, id string, body []byte) {
		for _, p := range providers {
			h := http.Header{}
			for _, name := range []string{"webhook-signature", "Stripe-Signature", "X-Hub-Signature-256", "X-Shopify-Hmac-Sha256", "X-Sig"} {
				h.Set(name, sig)
			}
			for _, name := range []string{"webhook-timestamp", "X-Time"} {
				h.Set(name, ts)
			}
			for _, name := range []string{"webhook-id", "X-Id"} {
				h.Set(name, id)
			}
			if e, err := p.verifier("unguessable").Verify(h, body, time.Unix(1, 0)); err == nil {
				t.Fatalf("%s accepts %+v", p.name, e)
			}
		}
	})
}

// A secret that was not configured is one that anybody has.
func TestAnEmptySecretVerifiesNothing(t *testing.T) {
	t.Parallel()
	p := providers[0]
	e := newEndpoint(t, p.verifier(""), nil)
	e.want(p.sign("", "e", "b", time.Now()), "b", http.StatusUnauthorized, 0)
}
