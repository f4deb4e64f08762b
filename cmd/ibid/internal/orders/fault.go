package orders

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ibid-go/ibid/cmd/ibid/internal/provider"
)

// StopHeader names a point at which the work stops for StopTime, so that its
// process can be killed there: after a step ("reserve", "charge", "order",
// "receipt"), "charging", when the card is charged and the step is not kept,
// "wallet", when the wallet payment is written and not committed, or "answer", when
// the answer is recorded and not sent. It is no part of what is asked for: a
// retry may leave it out.
const StopHeader = "Demo-Stop"

// StopTime is how long the work stops at most.
const StopTime = time.Minute

// faults is what one request asks for.
type faults struct {
	stop     string
	provider string
}

func faultsOf(h http.Header) faults {
	return faults{stop: h.Get(StopHeader), provider: h.Get(provider.FaultHeader)}
}

// after returns err, and stops first where the request asks for it and there is none.
func (s *Shop) after(ctx context.Context, point string, f faults, err error) error {
	if err != nil || f.stop != point {
		return err
	}
	defer s.holds.add(point)()
	timer := time.NewTimer(StopTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// beforeAnswer stops at "answer": what h answers through ibid is then recorded.
func (s *Shop) beforeAnswer(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := faultsOf(r.Header); f.stop == "answer" {
			w = stopper{w, func() { _ = s.after(r.Context(), "answer", f, nil) }} // a caller that is gone reads nothing
		}
		h.ServeHTTP(w, r)
	})
}

type stopper struct {
	http.ResponseWriter
	stop func()
}

// WriteHeader implements http.ResponseWriter.
func (s stopper) WriteHeader(status int) {
	s.stop()
	s.ResponseWriter.WriteHeader(status)
}

// holds counts the requests that stop at each point.
type holds struct {
	mu sync.Mutex
	at map[string]int // point → requests
}

// add counts one more, until the function that it returns is called.
func (h *holds) add(point string) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[string]int{}
	}
	h.at[point]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.at[point]--; h.at[point] == 0 {
			delete(h.at, point)
		}
	}
}

// Held is the answer of GET /held: the points at which requests stop now.
type Held struct {
	Points []string `json:"points"` // in alphabetical order
}

func (s *Shop) getHeld(w http.ResponseWriter, _ *http.Request) {
	s.holds.mu.Lock()
	points := slices.Sorted(maps.Keys(s.holds.at))
	s.holds.mu.Unlock()
	newAnswer(http.StatusOK, "", Held{points}).write(w)
}
