package ibidhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/ibidhttp"
)

func TestNewKeysAreLimitedPerScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &ibidhttp.Options{Limits: ibidhttp.Limits{NewKeys: 3, Interval: time.Minute}}, created())
		first := s.post("k0", "{}")
		for range 5 { // neither replays nor refusals use up new keys
			wantReplay(t, first, s.post("k0", "{}"))
			wantProblem(t, s.post("k0", "other"), 422, ibidhttp.TypeMismatch)
		}
		s.post("k1", "{}")
		s.post("k2", "{}")
		begun := s.store.asked("begin")
		time.Sleep(20 * time.Second)
		w := s.post("k3", "{}")
		wantProblem(t, w, 429, ibidhttp.TypeTooManyKeys)
		if w.Header().Get("Retry-After") != "40" {
			t.Errorf("Retry-After %q, want the rest of the interval", w.Header().Get("Retry-After"))
		}
		if s.store.asked("begin") != begun {
			t.Error("the store was asked to begin")
		}
		s.wantRuns(3)
		wantReplay(t, first, s.post("k0", "{}"))
		if w := s.post("k3", "{}", user+": u-2"); w.Code != 201 {
			t.Errorf("another scope: %d", w.Code)
		}
		time.Sleep(40 * time.Second)
		if w := s.post("k3", "{}"); w.Code != 201 {
			t.Errorf("the next interval: %d", w.Code)
		}
	})
}

func TestRequestsInProgressAreLimitedPerScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &ibidhttp.Options{Limits: ibidhttp.Limits{InProgress: 2}}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Panic") != "" {
				panic(http.ErrAbortHandler)
			}
			time.Sleep(time.Minute)
		})
		done := make(chan *httptest.ResponseRecorder, 2)
		for i := range 2 {
			go func() { done <- s.post(fmt.Sprint("k", i), "{}") }()
		}
		synctest.Wait()
		w := s.post("k2", "{}")
		wantProblem(t, w, 429, ibidhttp.TypeTooManyKeys)
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		if w := s.post("k2", "{}", user+": u-2"); w.Code != 200 {
			t.Errorf("another scope: %d", w.Code)
		}
		<-done
		<-done
		for i := range 5 { // a panic leaves, too
			func() {
				defer func() { _ = recover() }()
				s.post(fmt.Sprint("p", i), "{}", "X-Panic: 1")
			}()
		}
		if w := s.post("k2", "{}"); w.Code != 200 {
			t.Errorf("after the others have ended: %d %s", w.Code, w.Body)
		}
	})
}

// A flood from ten thousand scopes takes no more memory than that: those that
// come later share one count, until the others are idle.
func TestCountedScopesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &ibidhttp.Options{Limits: ibidhttp.Limits{NewKeys: 1}}, func(http.ResponseWriter, *http.Request) {})
		status := func(scope int) int { return s.post("k", "{}", fmt.Sprint(user, ": scope-", scope)).Code }
		for i := range 10_001 {
			if c := status(i); c != 200 {
				t.Fatalf("scope %d: %d", i, c)
			}
		}
		if c := status(10_001); c != 429 {
			t.Errorf("a scope for which there is no room: %d, want the shared limit", c)
		}
		time.Sleep(2 * time.Minute)
		for i := range 5 {
			if c := status(20_000 + i); c != 200 {
				t.Errorf("after the others were idle: %d", c)
			}
		}
	})
}
