package ibidhttp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// spy keeps everything that reaches a store.
type spy struct {
	ibid.Store
	mu   sync.Mutex
	seen bytes.Buffer
}

func (s *spy) note(args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range args {
		if b, ok := a.([]byte); ok {
			s.seen.Write(b)
		}
		fmt.Fprintf(&s.seen, " %v %+v %q\n", a, a, fmt.Sprint(a))
	}
}

func (s *spy) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	s.note(key[:], c, c.Label, c.Fingerprint[:], c.Scope[:])
	return s.Store.Begin(ctx, key, c)
}

func (s *spy) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	s.note(key[:], result)
	return s.Store.Complete(ctx, key, token, result, keep)
}

const (
	pan = "4929123456789012"
	cvv = "cvv-7319"
)

// A card number in body, header, path, query, key, scope or answer reaches
// neither the store, nor the log, nor an answer of the middleware's own.
func TestNoSecretReachesStoreOrLog(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed=%v", sealed), func(t *testing.T) {
			t.Parallel()
			o := &ibid.Options{Secret: []byte("0123456789abcdef"), AnswerTimeout: 50 * time.Millisecond}
			if sealed {
				o.Seal = []ibid.SealKey{{ID: 1, Key: []byte("0123456789abcdef0123456789abcdef")}}
			}
			mode := ""
			s := serve(t, &ibidhttp.Options{
				Fingerprint: ibidhttp.Fingerprint{CanonicalJSON: true, Headers: []string{"X-Card"}},
				KeyFormat:   func(key string) error { return nil },
				Policy:      &ibid.Policy{ReleaseOnPanic: true},
			}, func(w http.ResponseWriter, r *http.Request) {
				switch mode {
				case "fail":
					http.Error(w, pan, http.StatusServiceUnavailable)
				case "panic":
					panic(http.ErrAbortHandler)
				case "unknown":
					ibid.EffectStarted(r.Context())
					http.Error(w, pan, http.StatusServiceUnavailable)
				case "answer":
					w.Header().Set("X-Card", pan)
					io.WriteString(w, pan+cvv)
				}
			}, o)
			watch := &spy{Store: s.store.Store}
			s.store.Store = watch
			var own bytes.Buffer
			send := func(m, key, body string) {
				mode = m
				defer func() { _ = recover() }()
				r := at(request(key, body, "X-Card: "+pan, user+": user-"+pan, "Cookie: "+cvv), "POST", "/cards/"+pan+"?cvv="+cvv)
				w := s.do(r)
				if strings.Contains(w.Header().Get("Content-Type"), "problem") {
					fmt.Fprintln(&own, w.Body, w.Header())
				}
			}
			good := fmt.Sprintf(`{"pan":"%s","cvv":"%s"}`, pan, cvv)
			for _, m := range []string{"ok", "fail", "panic", "unknown"} {
				send(m, m+pan, good)
				send(m, m+pan, good)
				send(m, m+pan, good+" ")
				send(m, m+pan, strings.Replace(good, "pan", "p", 1))
			}
			if sealed {
				send("answer", "answer"+pan, good)
				send("answer", "answer"+pan, good)
			}
			send("ok", pan+", "+pan, good)
			send("ok", pan+"\xff", good)
			send("ok", strings.Repeat(pan, 20), good)
			send("ok", "dup"+pan, `{"`+pan+`":1,"`+pan+`":1}`)
			send("ok", "cut"+pan, `{"`+pan)
			s.store.set(nil, func(context.Context) error { return errDown })
			send("ok", "lost"+pan, good)
			s.store.set(down, nil)
			send("ok", "down"+pan, good)

			for name, text := range map[string]string{"store": watch.seen.String(), "log": s.log.String(), "an answer of the middleware's own": own.String()} {
				if len(text) < 500 {
					t.Errorf("the canary looked at %d bytes of %s", len(text), name)
				}
				for _, secret := range []string{pan, cvv} {
					if i := strings.Index(text, secret); i >= 0 {
						t.Errorf("%s shows %q: …%.200s", name, secret, text[max(0, i-60):])
					}
				}
			}
		})
	}
}

// A result that is moved under another key is not replayed there.
func TestResultsThatAreSwapped(t *testing.T) {
	t.Parallel()
	for _, seal := range [][]ibid.SealKey{nil, {{ID: 1, Key: []byte("0123456789abcdef0123456789abcdef")}}} {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "of "+r.Header.Get(user)) },
			&ibid.Options{Secret: []byte("0123456789abcdef"), Seal: seal})
		swap := &swapped{Store: s.store.Store}
		s.store.Store = swap
		s.post("k", "{}")
		s.post("k", "{}", user+": u-2")
		swap.on = true
		wantProblem(t, s.post("k", "{}"), 500, ibidhttp.TypeDamaged)
		s.wantRuns(2)
	}
}

// swapped answers with the result that was recorded last, whatever the key.
type swapped struct {
	ibid.Store
	last []byte
	on   bool
}

func (s *swapped) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	s.last = bytes.Clone(result)
	return s.Store.Complete(ctx, key, token, result, keep)
}

func (s *swapped) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	rec, err := s.Store.Begin(ctx, key, c)
	if s.on {
		rec.Result = bytes.Clone(s.last)
	}
	return rec, err
}

// Exchanges are pooled: nothing of one request is in another, whatever the
// first one ended in.
func TestRequestsDoNotMix(t *testing.T) {
	t.Parallel()
	s := serve(t, &ibidhttp.Options{MaxResult: 2000}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		id := r.Header.Get("Idempotency-Key")
		if r.Header.Get("X-End") != "none" {
			w.Header().Add("X-Of", id)
		}
		switch r.Header.Get("X-End") {
		case "panic":
			panic(http.ErrAbortHandler)
		case "503":
			w.WriteHeader(503)
		case "trailer":
			w.Header().Set("Trailer", "X-Sum")
			defer w.Header().Set("X-Sum", id)
		case "none":
			return
		}
		w.Write(append(b, id...))
	})
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := range 200 {
				id := fmt.Sprintf("%c-%d", 'a'+c, i)
				end := []string{"", "panic", "503", "trailer", "none", "", ""}[i%7]
				body := strings.Repeat(string(rune('a'+c)), 1+i*17%3000)
				func() {
					defer func() {
						if v := recover(); v != nil && fmt.Sprint(v) != http.ErrAbortHandler.Error() {
							panic(v)
						}
					}()
					w := s.post(id, body, "X-End: "+end, user+": "+id)
					want := body + id
					if end == "none" {
						want = ""
					}
					if w.Body.String() != want {
						t.Errorf("%s %q: %d bytes, want %d", id, end, w.Body.Len(), len(want))
					}
					if of := w.Header()["X-Of"]; end != "none" && (len(of) != 1 || of[0] != id) {
						t.Errorf("%s: X-Of %q", id, of)
					}
				}()
			}
		})
	}
	wg.Wait()
}
