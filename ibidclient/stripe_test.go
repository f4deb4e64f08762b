package ibidclient_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidclient"
)

// stripe is a server that is not ibid: it keeps answers by key, marks replays,
// answers a key that is in use with a bare 409, a key of another request with an error type
// of its own, and says by header whether to retry.
type stripe struct {
	mu      sync.Mutex
	running map[string]bool
	kept    map[string]stripeAnswer
	charges int
	delay   time.Duration
	trouble []int // statuses for requests that do not get to the charge
}

type stripeAnswer struct{ request, answer string }

func (s *stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.trouble) > 0 {
		status := s.trouble[0]
		s.trouble = s.trouble[1:]
		if status == 500 {
			w.Header().Set("Stripe-Should-Retry", "true")
		}
		w.WriteHeader(status)
		return
	}
	if s.running[key] {
		w.WriteHeader(http.StatusConflict)
		return
	}
	if kept, ok := s.kept[key]; ok {
		if kept.request != string(body) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"type":"idempotency_error","message":"other parameters"}}`)
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
		io.WriteString(w, kept.answer)
		return
	}
	s.running[key] = true
	s.charges++
	answer := fmt.Sprintf(`{"charge":%d}`, s.charges)
	s.mu.Unlock()
	time.Sleep(s.delay)
	s.mu.Lock()
	delete(s.running, key)
	s.kept[key] = stripeAnswer{string(body), answer}
	io.WriteString(w, answer)
}

// TestStripe: the defaults, and the preset, work with a server that is not ibid.
func TestStripe(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*ibidclient.Options{"defaults": {}, "preset": ibidclient.Stripe()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stripe{running: map[string]bool{}, kept: map[string]stripeAnswer{}}
			server := httptest.NewServer(s)
			defer server.Close()
			opts.BaseDelay, opts.MaxDelay = 20*time.Millisecond, 50*time.Millisecond
			opts.Attempts = 50
			c := client(server.Client().Transport, opts)
			charge := func(key, body string) (*http.Response, error) {
				req, err := http.NewRequest("POST", server.URL+"/v1/charges", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Idempotency-Key", key)
				return c.Do(req)
			}

			resp, err := charge("a", "amount=1")
			if got := read(t, resp, err); got != `{"charge":1}` || ibidclient.Replayed(resp) {
				t.Errorf("first: %s, replayed %v", got, ibidclient.Replayed(resp))
			}
			resp, err = charge("a", "amount=1")
			if got := read(t, resp, err); got != `{"charge":1}` || !ibidclient.Replayed(resp) {
				t.Errorf("again: %s, replayed %v", got, ibidclient.Replayed(resp))
			}
			resp, err = charge("a", "amount=2")
			if e := failure(t, resp, err); e.Outcome != ibidclient.Refused || !errors.Is(e, ibid.ErrMismatch) || e.Type != "idempotency_error" {
				t.Errorf("other parameters: %v", e)
			}
			s.trouble = []int{500, 409, 429, 503}
			resp, err = charge("b", "amount=1")
			if got := read(t, resp, err); got != `{"charge":2}` || ibidclient.AttemptsOf(resp) != 5 {
				t.Errorf("after trouble: %s in %d attempts", got, ibidclient.AttemptsOf(resp))
			}

			s.delay = 100 * time.Millisecond // ten at once, under one key
			answers := make(chan string, 10)
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					resp, err := charge("c", "amount=1")
					answers <- read(t, resp, err)
				})
			}
			wg.Wait()
			close(answers)
			for got := range answers {
				if got != `{"charge":3}` {
					t.Errorf("at once: %s", got)
				}
			}
			if s.charges != 3 {
				t.Errorf("%d charges, want 3", s.charges)
			}
		})
	}
}
