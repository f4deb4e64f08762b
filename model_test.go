package ibid_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// history is what happened to one key while engines, callers and the store
// were disturbed at random, and what must hold of it.
type history struct {
	mu      sync.Mutex
	effects int               // how often the effect happened
	answers map[string]string // fingerprint → the answer of all that got one
	done    bool              // a call was answered with a result
	print   string            // the fingerprint whose effect happened
	faults  []string
}

func (h *history) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// plan is how one attempt goes, drawn before it runs.
type plan struct {
	before, after time.Duration // before and after the effect
	end           int           // how it ends
	starts        bool          // it says EffectStarted
}

const (
	endValue = iota
	endFinal
	endFailsBefore // reports a failure and had no effect
	endCancelled   // vanishes after the effect
	endPanics
	endGoexit
	ends
)

func drawPlan(r *rand.Rand) plan {
	p := plan{before: time.Duration(r.IntN(3000)) * time.Millisecond, after: time.Duration(r.IntN(3000)) * time.Millisecond, end: r.IntN(ends), starts: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		p.end = endValue
	}
	return p
}

// Engines over one store that fails, hangs and loses replies, callers that go
// away, work that fails, vanishes and panics, under every takeover policy: of
// every key at most one answer is ever given, under Refuse and Probe its effect happens
// at most once and for one request, a result is never followed by another run, and every call of
// Do ends in exactly one event.
func TestDisturbedEngines(t *testing.T) {
	t.Parallel()
	seeds := 1000
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { disturb(t, uint64(seed)) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func disturb(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	takeover := []ibid.Takeover{ibid.Refuse, ibid.Refuse, ibid.Retry, ibid.Probe}[rnd.IntN(4)]
	policy := ibid.Policy{
		Takeover: takeover, Lease: time.Second, MaxRun: 10 * time.Second, Retain: 10 * time.Hour,
		Detach: rnd.IntN(2) == 0, MaxTakeovers: -1,
	}
	base := new(memstore.Store)
	var faultsMu sync.Mutex
	unrest := rand.New(rand.NewPCG(seed, 2))
	store := &faults{Store: base}
	rate := rnd.IntN(30)
	disturbance := func(ctx context.Context, _ string, _ int) error {
		faultsMu.Lock()
		roll, hang := unrest.IntN(100), time.Duration(unrest.IntN(4000))*time.Millisecond
		faultsMu.Unlock()
		switch {
		case roll < rate:
			return errCut
		case roll < rate+5:
			select { // the store is slow, or hangs
			case <-time.After(hang):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	var engines []*ibid.Engine
	var events []*endings
	for range 2 {
		n := new(endings)
		events = append(events, n)
		engines = append(engines, newEngine(t, store, &ibid.Options{
			StoreTimeout: 2 * time.Second, AnswerTimeout: 4 * time.Second,
			Observe: []func(context.Context, ibid.Event){n.observe},
		}))
	}
	store.set(disturbance, disturbance)

	h := &history{answers: map[string]string{}}
	var callers sync.WaitGroup
	calls := make([]int, len(engines))
	const effect = "the effect"
	for i := range 12 {
		which := rnd.IntN(len(engines))
		e := engines[which]
		calls[which]++
		start, patience, leaves := time.Duration(rnd.IntN(20_000))*time.Millisecond, time.Duration(rnd.IntN(3))*4*time.Second, time.Duration(rnd.IntN(40_000))*time.Millisecond
		p := drawPlan(rnd)
		print := "first"
		if rnd.IntN(8) == 0 {
			print = "other"
		}
		pol := policy
		pol.Wait = patience
		call := ibid.Call{Key: order.Key, Policy: &pol, Fingerprint: e.Fingerprint([]byte(print))}
		if takeover == ibid.Probe {
			call.Probe = func(context.Context) (ibid.Found, []byte, error) {
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.effects > 0 {
					return ibid.FoundDone, []byte(effect), nil
				}
				return ibid.FoundUnknown, nil, nil // it may still happen
			}
		}
		work := func(ctx context.Context) ([]byte, error) {
			h.mu.Lock()
			if h.done && takeover != ibid.Retry {
				h.faults = append(h.faults, "the work runs after a result was given")
			}
			h.mu.Unlock()
			if p.end == endFailsBefore {
				time.Sleep(p.before)
				return nil, errCut
			}
			time.Sleep(p.before)
			if p.starts {
				ibid.EffectStarted(ctx)
			}
			h.mu.Lock()
			h.effects++
			if h.print != "" && h.print != print {
				h.faults = append(h.faults, "the effect of two requests happened under one key")
			}
			h.print = print
			h.mu.Unlock()
			time.Sleep(p.after)
			switch p.end {
			case endFinal:
				return nil, ibid.Final(errors.New(effect))
			case endCancelled:
				return nil, fmt.Errorf("after the effect: %w", context.DeadlineExceeded)
			case endPanics:
				panic("after the effect")
			case endGoexit:
				runtime.Goexit()
			}
			return []byte(fmt.Sprintf("%s of %d", effect, i)), nil
		}
		callers.Go(func() {
			time.Sleep(start)
			ctx, cancel := context.WithTimeout(t.Context(), leaves)
			defer cancel()
			gone := make(chan struct{})
			go func() { // on a goroutine of its own: it may end
				defer close(gone)
				defer func() { recover() }()
				data, _, err := e.Do(ctx, call, work)
				h.answered(print, data, err)
			}()
			<-gone
		})
	}
	callers.Wait()
	store.set(nil, nil)
	for i, e := range engines {
		if err := e.Drain(t.Context()); err != nil {
			t.Errorf("drain: %v", err)
		}
		if got := events[i].take(); len(got) != calls[i] {
			t.Errorf("%d calls of Do ended in %d events: %v", calls[i], len(got), got)
		}
	}
	last := newEngine(t, base, nil)
	data, _, err := last.Do(t.Context(), ibid.Call{Key: order.Key, Policy: &ibid.Policy{}, Fingerprint: last.Fingerprint([]byte("first"))},
		func(context.Context) ([]byte, error) { return nil, errCut })
	h.answered("first", data, err)
	if takeover != ibid.Retry && h.effects > 1 {
		t.Errorf("the effect happened %d times", h.effects)
	}
	for _, f := range h.faults {
		t.Error(f)
	}
}

// answered checks what a call was told against what others were.
func (h *history) answered(print string, data []byte, err error) {
	var final *ibid.FinalError
	answer := string(data)
	switch {
	case errors.As(err, &final):
		answer = "final: " + final.Message
	case errors.Is(err, ibid.ErrUnknown), errors.Is(err, ibid.ErrNotRecorded), errors.Is(err, ibid.ErrInProgress),
		errors.Is(err, ibid.ErrMismatch), errors.Is(err, ibid.ErrClaimLost), errors.Is(err, ibid.ErrUnavailable),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, errCut):
		return
	case err != nil:
		h.fault("an error that Do has not: %v", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
	for other, was := range h.answers {
		if was != answer || other != print {
			h.faults = append(h.faults, fmt.Sprintf("%s was answered %q, and %s %q", other, was, print, answer))
		}
	}
	h.answers[print] = answer
}
