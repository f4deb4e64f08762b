package ibidclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidclient"
)

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestKeySources: where a key comes from, in which order.
func TestKeySources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		method string
		header string
		ctxKey string
		opts   *ibidclient.Options
		want   string // "minted" for a UUID
		refuse bool
	}{
		{name: "POST is minted a key", method: "POST", want: "minted"},
		{name: "PATCH is minted a key", method: "PATCH", want: "minted"},
		{name: "PUT is not", method: "PUT", want: ""},
		{name: "chosen methods are", method: "DELETE", opts: &ibidclient.Options{Methods: []string{"DELETE"}}, want: "minted"},
		{name: "and others then are not", method: "POST", opts: &ibidclient.Options{Methods: []string{"DELETE"}}, want: ""},
		{name: "an empty list mints none", method: "POST", opts: &ibidclient.Options{Methods: []string{}}, want: ""},
		{name: "a key in the header stays as it is", method: "POST", header: `"quoted"`, want: `"quoted"`},
		{name: "also on a method that is minted none", method: "DELETE", header: "k", want: "k"},
		{name: "a key in the context", method: "POST", ctxKey: "order-1", want: "order-1"},
		{name: "also on a method that is minted none", method: "PUT", ctxKey: "order-1", want: "order-1"},
		{name: "but not on a safe one", method: "GET", ctxKey: "order-1", want: ""},
		{name: "the same key in both", method: "POST", header: "order-1", ctxKey: "order-1", want: "order-1"},
		{name: "another key in each", method: "POST", header: "order-1", ctxKey: "order-2", refuse: true},
		{name: "the key is minted by the caller's function", method: "POST", opts: &ibidclient.Options{Mint: func() string { return "mine" }}, want: "mine"},
		{name: "which must not fail", method: "POST", opts: &ibidclient.Options{Mint: func() string { return "" }}, refuse: true},
		{name: "an empty key", method: "POST", ctxKey: "", header: " ", refuse: true},
		{name: "a key with a line break", method: "POST", ctxKey: "a\r\nX: y", refuse: true},
		{name: "a key that is too long", method: "POST", ctxKey: strings.Repeat("k", 256), refuse: true},
		{name: "a key that is just short enough", method: "POST", ctxKey: strings.Repeat("k", 255), want: strings.Repeat("k", 255)},
		{name: "a key that would be split is quoted", method: "POST", ctxKey: `a,b`, want: `"a,b"`},
		{name: "quoted, as the draft has it", method: "POST", ctxKey: `a"b\c`, opts: ibidclient.IETF(), want: `"a\"b\\c"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.ctxKey != "" {
					ctx = ibidclient.WithKey(ctx, c.ctxKey)
				}
				req := post(t, ctx, "{}")
				req.Method = c.method
				if c.header != "" {
					req.Header.Set("Idempotency-Key", c.header)
				}
				base := script(step{status: 503}, step{status: 200})
				resp, err := client(base, c.opts).Do(req)
				if c.refuse {
					e := failure(t, resp, err)
					if e.Outcome != ibidclient.Refused || !errors.Is(e, ibid.ErrInvalid) || len(base.attempts()) != 0 {
						t.Errorf("%v after %d attempts, want a refusal before any", e, len(base.attempts()))
					}
					return
				}
				read(t, resp, err)
				got := base.keys()
				if c.want == "minted" {
					m := uuid.FindStringSubmatch(got[0])
					if m == nil || m[1] != "7" {
						t.Fatalf("key %q is no UUID of version 7", got[0])
					}
					c.want = got[0]
				}
				for _, k := range got {
					if k != c.want {
						t.Errorf("keys %q, want %q", got, c.want)
					}
				}
				if c.want != "" && len(got) != 2 {
					t.Errorf("%d attempts, want 2", len(got))
				}
				if req.Header.Get("Idempotency-Key") != c.header {
					t.Error("the caller's request was changed")
				}
				want := c.want
				if c.header == `"quoted"` {
					want = "quoted"
				}
				if c.ctxKey != "" && want != "" {
					want = c.ctxKey
				}
				if c.method != "PUT" && c.method != "DELETE" && ibidclient.KeyOf(resp) != want {
					t.Errorf("KeyOf is %q, want %q", ibidclient.KeyOf(resp), want)
				}
			})
		})
	}
}

// TestTwoKeysInTheHeader: which one the server would take cannot be known.
func TestTwoKeysInTheHeader(t *testing.T) {
	t.Parallel()
	base := script(step{status: 200})
	req := post(t, t.Context(), "")
	req.Header["Idempotency-Key"] = []string{"a", "b"}
	resp, err := client(base, nil).Do(req)
	if e := failure(t, resp, err); e.Outcome != ibidclient.Refused || len(base.attempts()) != 0 {
		t.Error(e)
	}
}

// TestOneKeyPerOperation: many operations at once over one client, each with
// several attempts: every attempt of an operation has its key, and no two
// operations share one.
func TestOneKeyPerOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const operations = 200
		base := script(step{status: 200})
		seen := make(map[string]int) // body → attempts
		var mu sync.Mutex
		base.extra = func(_ int, req *http.Request) *step {
			b, _ := io.ReadAll(req.Body)
			mu.Lock()
			defer mu.Unlock()
			seen[string(b)]++
			if seen[string(b)] < 3 {
				return &step{err: errCut}
			}
			return &step{status: 200, body: string(b) + " " + req.Header.Get("Idempotency-Key")}
		}
		c := client(base, &ibidclient.Options{Budget: ibidclient.Budget{Reserve: -1}})
		var wg sync.WaitGroup
		for i := range operations {
			wg.Go(func() {
				body := fmt.Sprint("order ", i)
				resp, err := c.Do(post(t, t.Context(), body))
				if got := read(t, resp, err); got != body+" "+ibidclient.KeyOf(resp) || ibidclient.AttemptsOf(resp) != 3 {
					t.Errorf("%q after %d attempts under %s", got, ibidclient.AttemptsOf(resp), ibidclient.KeyOf(resp))
				}
			})
		}
		wg.Wait()
		count := make(map[string]int) // key → attempts
		for _, k := range base.keys() {
			count[k]++
		}
		if len(count) != operations {
			t.Errorf("%d keys for %d operations", len(count), operations)
		}
		for k, n := range count {
			if n != 3 {
				t.Errorf("key %s has %d attempts, want 3", k, n)
			}
		}
	})
}

// TestContextReused: one key for two different requests is reported before
// anything is sent; the same request again is the same operation.
func TestContextReused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		second func(*http.Request)
		refuse bool
	}{
		{"the same request", func(*http.Request) {}, false},
		{"another body", func(r *http.Request) { *r = *r.Clone(r.Context()); setBody(r, "other") }, true},
		{"another path", func(r *http.Request) { r.URL.Path = "/refunds" }, true},
		{"another query", func(r *http.Request) { r.URL.RawQuery = "dry=1" }, true},
		{"another method", func(r *http.Request) { r.Method = "PATCH" }, true},
		{"another content type", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, true},
		{"another trace header", func(r *http.Request) { r.Header.Set("Traceparent", "00") }, false},
		{"a safe method, which takes no key", func(r *http.Request) { r.Method = "GET" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base := script(step{status: 200})
			cl := client(base, nil)
			ctx := ibidclient.WithKey(t.Context(), ibidclient.KeyFor("order", "1"))
			resp, err := cl.Do(post(t, ctx, "body"))
			read(t, resp, err)
			req := post(t, ctx, "body")
			c.second(req)
			resp, err = cl.Do(req)
			if !c.refuse {
				read(t, resp, err)
				return
			}
			e := failure(t, resp, err)
			if e.Outcome != ibidclient.Refused || !errors.Is(e, ibid.ErrMismatch) || len(base.attempts()) != 1 {
				t.Errorf("%v after %d attempts, want a mismatch before the second", e, len(base.attempts()))
			}
		})
	}
}

func setBody(r *http.Request, s string) {
	r.Body = io.NopCloser(strings.NewReader(s))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
	r.ContentLength = int64(len(s))
}

// TestKeyFor: the same business data has the same key, in every process.
func TestKeyFor(t *testing.T) {
	t.Parallel()
	if got, want := ibidclient.KeyFor("order", "17", "2"), "846d27e0-02ff-840c-984f-79efa3f18c23"; got != want {
		t.Errorf("KeyFor is %q", got)
	}
	keys := make(map[string][]string)
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a", "bc"}, {"ab", "c"}, {"abc"}, {"1:a2:bc"}, {"order", "1", "12"}, {"order", "11", "2"}} {
		k := ibidclient.KeyFor(parts...)
		if m := uuid.FindStringSubmatch(k); m == nil || m[1] != "8" {
			t.Errorf("KeyFor(%q) is %q, no UUID of version 8", parts, k)
		}
		if other, ok := keys[k]; ok {
			t.Errorf("%q and %q have the same key", parts, other)
		}
		keys[k] = parts
	}
}

// TestMinted: keys do not repeat, and those of UUIDv7 follow the time.
func TestMinted(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 1000 {
		for _, k := range []string{ibidclient.UUIDv7(), ibidclient.Random128()} {
			if seen[k] {
				t.Fatalf("%s twice", k)
			}
			seen[k] = true
		}
	}
	synctest.Test(t, func(t *testing.T) {
		a := ibidclient.UUIDv7()
		time.Sleep(time.Millisecond)
		if b := ibidclient.UUIDv7(); b[:13] <= a[:13] || a[:13] != "00dc6acf-ac00" {
			t.Errorf("%s, then %s", a, b)
		}
	})
}

// TestRedirect: a redirect that keeps the method is the same operation; one
// that turns it into GET carries no key.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for _, status := range []int{307, 308, 303} {
		base := script(step{status: status, header: "Location: /v2/orders"}, step{status: 503}, step{status: 200})
		synctest.Test(t, func(t *testing.T) {
			ctx := ibidclient.WithKey(t.Context(), "order-1")
			if status == 308 {
				ctx = t.Context()
			}
			resp, err := client(base, nil).Do(post(t, ctx, "body"))
			read(t, resp, err)
		})
		saw, keys := base.attempts(), base.keys()
		if status == 303 {
			if saw[1].method != "GET" || keys[1] != "" {
				t.Errorf("303: %s with key %q", saw[1].method, keys[1])
			}
			continue
		}
		if len(saw) != 3 || keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] || saw[2].body != "body" || saw[2].url != "http://shop.test/v2/orders" {
			t.Errorf("%d: keys %q, last attempt %+v", status, keys, saw[len(saw)-1])
		}
	}
}

// TestPresets: header, methods and marker of other services.
func TestPresets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		opts   *ibidclient.Options
		header string
		marker bool
	}{
		{"IETF", ibidclient.IETF(), "Idempotency-Key", true},
		{"Stripe", ibidclient.Stripe(), "Idempotency-Key", true},
		{"PayPal", ibidclient.PayPal(), "Paypal-Request-Id", false},
		{"Adyen", ibidclient.Adyen(), "Idempotency-Key", false},
	} {
		base := script(step{status: 200, header: "Idempotent-Replayed: true"})
		resp, err := client(base, c.opts).Do(post(t, context.Background(), ""))
		read(t, resp, err)
		if k := base.attempts()[0].header[c.header]; len(k) != 1 || ibidclient.Replayed(resp) != c.marker {
			t.Errorf("%s: key %q, replayed %v", c.name, k, ibidclient.Replayed(resp))
		}
	}
}
