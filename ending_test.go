package ibid_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// endings counts the events that end a call of Do.
type endings struct {
	mu    sync.Mutex
	kinds []ibid.EventKind
	extra []ibid.Event // those that end no call
}

func (n *endings) observe(_ context.Context, ev ibid.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch ev.Kind {
	case ibid.EventClaimed, ibid.EventTakenOver, ibid.EventWaited, ibid.EventStoreError,
		ibid.EventRecordedLate, ibid.EventDropped, ibid.EventSwept:
		n.extra = append(n.extra, ev)
	default:
		n.kinds = append(n.kinds, ev.Kind)
	}
}

func (n *endings) take() []ibid.EventKind {
	n.mu.Lock()
	defer n.mu.Unlock()
	kinds := n.kinds
	n.kinds = nil
	return kinds
}

// Metrics add the endings up: a call that ended twice is counted twice.
func TestEveryCallEndsOnce(t *testing.T) {
	t.Parallel()
	takeOver := func(t *testing.T, e *ibid.Engine, result string) ibid.Work {
		return func(ctx context.Context) ([]byte, error) {
			op, err := e.Inspect(ctx, e.Digest(order.Key))
			if err != nil {
				t.Error(err)
			}
			if err := e.Forget(ctx, op.Key, op.Record.Token); err != nil {
				t.Error(err)
			}
			if result != "" {
				other := newEngine(t, ibid.EngineStore(e), nil)
				must(t, other, order, returns(result, new(int)))
			}
			return []byte("mine"), nil
		}
	}
	for _, tc := range []struct {
		name string
		want ibid.EventKind
		run  func(t *testing.T, e *ibid.Engine, f *faults)
	}{
		{"the claim was lost, and the winner's answer returned", ibid.EventClaimLost, func(t *testing.T, e *ibid.Engine, _ *faults) {
			data, _, err := e.Do(t.Context(), order, takeOver(t, e, "theirs"))
			if string(data) != "theirs" || err != nil {
				t.Errorf("%q %v", data, err)
			}
		}},
		{"the claim was lost, and nobody has an answer", ibid.EventClaimLost, func(t *testing.T, e *ibid.Engine, _ *faults) {
			_, _, err := e.Do(t.Context(), order, takeOver(t, e, ""))
			wants(t, err, ibid.ErrClaimLost)
		}},
		{"the work failed after its transaction had completed the claim", ibid.EventCompleted, func(t *testing.T, e *ibid.Engine, f *faults) {
			data, _, err := e.Do(t.Context(), order, func(ctx context.Context) ([]byte, error) {
				c, err := ibid.Prepare(ctx, []byte("committed"))
				if err != nil {
					return nil, err
				}
				return nil, errors.Join(f.Store.Complete(ctx, c.Key, c.Token, c.Result, c.Keep), errCut)
			})
			if string(data) != "committed" || err != nil {
				t.Errorf("%q %v", data, err)
			}
		}},
		{"the same, with a context error", ibid.EventCompleted, func(t *testing.T, e *ibid.Engine, f *faults) {
			data, _, err := e.Do(t.Context(), order, func(ctx context.Context) ([]byte, error) {
				c, err := ibid.Prepare(ctx, []byte("committed"))
				if err != nil {
					return nil, err
				}
				return nil, errors.Join(f.Store.Complete(ctx, c.Key, c.Token, c.Result, c.Keep), context.Canceled)
			})
			if string(data) != "committed" || err != nil {
				t.Errorf("%q %v", data, err)
			}
		}},
		{"the result is recorded late, under a claim that was lost meanwhile", ibid.EventNotRecorded, func(t *testing.T, e *ibid.Engine, f *faults) {
			f.set(func(_ context.Context, verb string, _ int) error {
				if verb == "complete" {
					return errCut
				}
				return nil
			}, nil)
			_, _, err := e.Do(t.Context(), order, returns("mine", new(int)))
			wants(t, err, ibid.ErrNotRecorded)
			op, _ := e.Inspect(t.Context(), e.Digest(order.Key))
			if err := e.Forget(t.Context(), op.Key, op.Record.Token); err != nil {
				t.Error(err)
			}
			f.set(nil, nil)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := new(endings)
				f := &faults{Store: new(memstore.Store)}
				e := newEngine(t, f, &ibid.Options{Observe: []func(context.Context, ibid.Event){n.observe}})
				tc.run(t, e, f)
				time.Sleep(time.Minute)
				if got := n.take(); len(got) != 1 || got[0] != tc.want {
					t.Fatalf("ended as %v, want %v", got, tc.want)
				}
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// The work prepared its completion, and what became of its transaction cannot
// be told: that is no failure.
func TestCommitThatCannotBeLookedUpIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := new(endings)
		f := &faults{Store: new(memstore.Store)}
		e := newEngine(t, f, &ibid.Options{Observe: []func(context.Context, ibid.Event){n.observe}})
		_, _, err := e.Do(t.Context(), order, func(ctx context.Context) ([]byte, error) {
			c, err := ibid.Prepare(ctx, []byte("committed"))
			if err != nil {
				return nil, err
			}
			err = f.Store.Complete(ctx, c.Key, c.Token, c.Result, c.Keep)
			f.set(func(context.Context, string, int) error { return errCut }, nil)
			return nil, errors.Join(err, errCut)
		})
		wants(t, err, ibid.ErrUnknown)
		wants(t, err, errCut)
		if got := n.take(); len(got) != 1 || got[0] != ibid.EventGivenUp {
			t.Fatalf("ended as %v", got)
		}
		f.set(nil, nil)
		if data, _ := must(t, e, order, returns("again", new(int))); data != "committed" {
			t.Fatalf("replayed %q", data)
		}
	})
}

type left struct{}

// The context of the work ends with it, also when it is asked for only then: a
// server's own context lives for months, and would keep what hangs on it.
func TestContextOfWorkEndsWithIt(t *testing.T) {
	t.Parallel()
	down := func(context.Context, string, int) error { return errCut }
	for _, tc := range []struct {
		name   string
		policy ibid.Policy
		before func(context.Context, string, int) error
	}{
		{"under a claim", ibid.Policy{}, nil},
		{"detached", ibid.Policy{Detach: true}, nil},
		{"on its guard", ibid.Policy{Guard: "orders_pkey"}, down},
	} {
		for _, end := range []string{"returns", "fails", "panics"} {
			t.Run(tc.name+", "+end, func(t *testing.T) {
				t.Parallel()
				f := &faults{Store: new(memstore.Store)}
				e := newEngine(t, f, nil)
				f.set(tc.before, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var late, early context.Context
				var done <-chan struct{}
				func() {
					defer func() { recover() }()
					e.Do(ctx, with(tc.policy), func(ctx context.Context) ([]byte, error) {
						late = ctx
						early = context.WithValue(ctx, left{}, "behind")
						done = ctx.Done()
						switch end {
						case "fails":
							return nil, errCut
						case "panics":
							panic(end)
						}
						return nil, nil
					})
				}()
				select {
				case <-done:
				default:
					t.Fatal("it goes on")
				}
				wants(t, early.Err(), context.Canceled)
				wants(t, late.Err(), context.Canceled)
				wants(t, ctx.Err(), nil)
			})
		}
	}
	e := newEngine(t, nil, nil)
	var late context.Context
	must(t, e, order, func(ctx context.Context) ([]byte, error) { late = ctx; return nil, nil })
	wants(t, late.Err(), context.Canceled)
	<-late.Done()
}
