package ibidhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/ibidhttp"
)

func TestPresets(t *testing.T) {
	t.Parallel()
	header := func(name string) func(string) *http.Request {
		return func(body string) *http.Request { return request("", body, name+": k") }
	}
	inBody := func(body string) *http.Request { return request("", body) }
	for _, c := range []struct {
		name     string
		opts     *ibidhttp.Options
		make     func(body string) *http.Request
		mismatch int
		server   int64 // runs of two requests whose handler answers 500
		put      int64 // runs of two PUT requests
		route    int   // the same key on another route
	}{
		{"IETF", ibidhttp.IETF(), header("Idempotency-Key"), 422, 2, 1, 201},
		{"Stripe", ibidhttp.Stripe(), header("Idempotency-Key"), 400, 1, 2, 400},
		{"PayPal", ibidhttp.PayPal(), header("PayPal-Request-Id"), 422, 2, 2, 201},
		{"Adyen, header", ibidhttp.Adyen(), header("Idempotency-Key"), 422, 2, 2, 422},
		{"Adyen, reference", ibidhttp.Adyen(), inBody, 422, 2, 2, 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status := 201
			s := serve(t, c.opts, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
			const body = `{"reference":"r-1","amount":1}`
			wantReplay(t, s.do(c.make(body)), s.do(c.make(body)))
			wantProblem(t, s.do(c.make(strings.Replace(body, ":1", ":2", 1))), c.mismatch, ibidhttp.TypeMismatch)
			s.wantRuns(1)
			if w := s.do(at(c.make(body), "POST", "/refunds")); w.Code != c.route {
				t.Errorf("another route: %d, want %d", w.Code, c.route)
			}
			status = 500
			s.runs.Store(0)
			failing := strings.Replace(body, "r-1", "r-2", 1)
			for range 2 {
				s.do(at(c.make(failing), "POST", "/fails"))
			}
			if c.route == 201 {
				s.wantRuns(c.server)
			}
			status = 201
			s.runs.Store(0)
			for range 2 {
				s.do(at(c.make(strings.Replace(body, "r-1", "r-3", 1)), "PUT", "/puts"))
			}
			s.wantRuns(c.put)
		})
	}
	t.Run("Stripe keeps server errors", func(t *testing.T) {
		t.Parallel()
		s := serve(t, ibidhttp.Stripe(), func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) })
		wantReplay(t, s.post("k", "{}"), s.post("k", "{}"))
		s.wantRuns(1)
	})
	t.Run("Adyen keeps for 31 days and takes 64 characters", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, ibidhttp.Adyen(), created())
			first := s.post("k", "{}")
			time.Sleep(31*24*time.Hour - time.Second)
			wantReplay(t, first, s.post("k", "{}"))
			wantProblem(t, s.post(strings.Repeat("k", 65), "{}"), 400, ibidhttp.TypeKeyMalformed)
		})
	})
	t.Run("a preset is the caller's own", func(t *testing.T) {
		t.Parallel()
		ibidhttp.Stripe().Methods[0] = "PUT"
		if ibidhttp.Stripe().Methods[0] != "POST" {
			t.Error("a change reached the preset")
		}
	})
}
