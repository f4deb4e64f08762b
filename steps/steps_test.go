package steps_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/steps"
)

var order = ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "order-42"}, Fingerprint: ibid.Fingerprint{1, 7}}

func newEngine(t *testing.T, store ibid.Store) *ibid.Engine {
	t.Helper()
	e, err := ibid.New(t.Context(), store, &ibid.Options{
		Policy: ibid.Policy{Lease: 10 * time.Second, MaxRun: time.Minute, MaxTakeovers: -1},
		Seal:   []ibid.SealKey{{ID: 1, Key: []byte("0123456789abcdef0123456789abcdef")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// bank is a downstream. It deduplicates by key where dedups is set.
type bank struct {
	mu      sync.Mutex
	calls   int
	charges []string // keys, of every charge that happened
	dedups  bool
}

func (b *bank) charge(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.dedups {
		for i, k := range b.charges {
			if k == key {
				return fmt.Sprintf("charge %d", i+1)
			}
		}
	}
	b.charges = append(b.charges, key)
	return fmt.Sprintf("charge %d", len(b.charges))
}

// call returns a step that charges.
func (b *bank) call(ctx context.Context, info steps.StepInfo) (string, error) {
	return b.charge(info.Key), nil
}

// crash ends the attempt as the death of its process does, for all the store
// can see.
func crash() { runtime.Goexit() }

// attempt runs f on a goroutine of its own, which f may end.
func attempt(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}

func TestFinishedStepsAreSkipped(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, why string
		end       func() error // of the first attempt, after its first step
	}{
		{"after a reported failure", "a client's retry would charge again", func() error { return errors.New("shop is closed") }},
		{"after a crash", "a restart would charge again", func() error { crash(); return nil }},
		{"after a panic", "a panic would charge again", func() error { panic("boom") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, b := newEngine(t, new(memstore.Store)), &bank{}
				wrote := 0
				run := func(end func() error) (string, error) {
					v, _, err := steps.Run(t.Context(), e, order, func(ctx context.Context, op *steps.Op) (string, error) {
						charge, err := steps.Step(ctx, op, "charge", b.call)
						if err != nil {
							return "", err
						}
						if end != nil {
							if err := end(); err != nil {
								return "", err
							}
						}
						return steps.Step(ctx, op, "order", func(_ context.Context, info steps.StepInfo) (string, error) {
							wrote++
							if info.Maybe || info.Attempt != 1 {
								t.Errorf("second step: %+v", info)
							}
							return "order for " + charge, nil
						})
					})
					return v, err
				}
				attempt(func() { defer func() { _ = recover() }(); _, _ = run(row.end) })
				time.Sleep(20 * time.Second) // the lease is over
				for range 2 {
					if v, err := run(nil); err != nil || v != "order for charge 1" {
						t.Fatalf("%q, %v: %s", v, err, row.why)
					}
				}
				if b.calls != 1 || wrote != 1 {
					t.Fatalf("%d charges, %d orders: %s", b.calls, wrote, row.why)
				}
			})
		})
	}
}

// A step that vanished in the middle is maybe done. What follows is each step's
// own choice.
func TestBegunStepsAreMaybeDone(t *testing.T) {
	t.Parallel()
	type resolver = func(context.Context, steps.StepInfo) (ibid.Found, string, error)
	for _, row := range []struct {
		name, why string
		dedups    bool
		resolve   resolver
		fails     error // ends the first attempt instead of a crash
		want      string
		err       error
		charges   int
		maybe     bool // the second run of the step is told so; it does not run if !again
		again     bool
	}{
		{
			name: "run again with the same derived key", why: "the downstream could not know that it is the same charge",
			dedups: true, want: "charge 1", charges: 1, maybe: true, again: true,
		},
		{
			name: "the downstream says that it is done", why: "the card would be charged twice",
			resolve: func(context.Context, steps.StepInfo) (ibid.Found, string, error) {
				return ibid.FoundDone, "charge 1", nil
			},
			want: "charge 1", charges: 1,
		},
		{
			name: "the downstream says that it is not done", why: "the order would wait for ever",
			resolve: func(context.Context, steps.StepInfo) (ibid.Found, string, error) { return ibid.FoundNotDone, "", nil },
			want:    "charge 2", charges: 2, maybe: true, again: true,
		},
		{
			name: "the downstream cannot tell", why: "a guess would be as bad as none",
			resolve: func(context.Context, steps.StepInfo) (ibid.Found, string, error) { return ibid.FoundUnknown, "", nil },
			err:     ibid.ErrUnknown, charges: 1,
		},
		{
			name: "the downstream cannot be asked", why: "an outage would be taken for an answer",
			resolve: func(context.Context, steps.StepInfo) (ibid.Found, string, error) {
				return ibid.FoundNotDone, "", errors.New("down")
			},
			err: ibid.ErrUnknown, charges: 1,
		},
		{
			name: "its error may be a lost answer", why: "the charge whose answer was lost would be made again",
			fails: errors.New("connection reset"), dedups: true, want: "charge 1", charges: 1, maybe: true, again: true,
		},
		{
			name: "its error says that nothing was done", why: "a resolver would be asked for nothing",
			fails: steps.NotDone(errors.New("connection refused")), dedups: true, want: "charge 1", charges: 1, again: true,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, b := newEngine(t, new(memstore.Store)), &bank{dedups: row.dedups}
				ran := 0
				run := func(first bool) (string, error) {
					v, _, err := steps.Run(t.Context(), e, order, func(ctx context.Context, op *steps.Op) (string, error) {
						return steps.AtMostOnce(ctx, op, "charge", func(ctx context.Context, info steps.StepInfo) (string, error) {
							if ran++; ran == 2 && info.Maybe != row.maybe {
								t.Errorf("told %+v: %s", info, row.why)
							}
							v := b.charge(info.Key)
							if first && row.fails == nil {
								crash()
							}
							if first {
								return "", row.fails
							}
							return v, nil
						}, row.resolve)
					})
					return v, err
				}
				attempt(func() { _, _ = run(true) })
				time.Sleep(20 * time.Second)
				v, err := run(false)
				if v != row.want || !errors.Is(err, row.err) || len(b.charges) != row.charges || (ran == 2) != row.again {
					t.Fatalf("%q, %v, %d charges in %d runs: %s", v, err, len(b.charges), ran, row.why)
				}
				if row.err != nil { // it stays unknown, and is asked again
					if _, err := run(false); !errors.Is(err, row.err) || len(b.charges) != row.charges {
						t.Fatalf("then %v, %d charges", err, len(b.charges))
					}
				}
			})
		})
	}
}

func TestStepsRefuse(t *testing.T) {
	t.Parallel()
	none := func(context.Context, steps.StepInfo) (int, error) { return 1, nil }
	for _, row := range []struct {
		name, why string
		first     []string // steps of an attempt before, which then failed
		names     []string
		want      error
	}{
		{"one name for two steps", "the second would get the result of the first", nil, []string{"a", "a"}, ibid.ErrInvalid},
		{"a step without a name", "all of them would be one", nil, []string{""}, ibid.ErrInvalid},
		{"a program that forgot a step", "what it did would be forgotten", []string{"charge", "order"}, []string{"order"}, steps.ErrChanged},
		{"a program that renamed a step", "it would be done twice", []string{"charge"}, []string{"pay"}, steps.ErrChanged},
		{"nothing of another order", "steps are known by their names", []string{"a", "b"}, []string{"b", "a"}, nil},
		{"nothing of a new step", "programs grow", []string{"a"}, []string{"a", "b"}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, new(memstore.Store))
			run := func(names []string, end error) error {
				_, _, err := steps.Run(t.Context(), e, order, func(ctx context.Context, op *steps.Op) (int, error) {
					for _, name := range names {
						if _, err := steps.Step(ctx, op, name, none); err != nil {
							return 0, err
						}
					}
					return 1, end
				})
				return err
			}
			if row.first != nil {
				_ = run(row.first, errors.New("not yet"))
			}
			if err := run(row.names, nil); !errors.Is(err, row.want) {
				t.Errorf("%v, want %v: %s", err, row.want, row.why)
			}
		})
	}
}

func TestStepsNeedAClaimOfTheirOwn(t *testing.T) {
	t.Parallel()
	if _, err := steps.Resume(t.Context(), func(context.Context, *steps.Op) (int, error) { return 1, nil }); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("outside of work: %v", err)
	}
	call := order
	call.Tx = struct{ ibid.TxStore }{}
	if _, _, err := steps.Run(t.Context(), newEngine(t, new(memstore.Store)), call, func(context.Context, *steps.Op) (int, error) { return 1, nil }); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("in a transaction: %v", err)
	}
}

// An attempt that was taken over begins no further step.
func TestLostClaimBeginsNoStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := new(memstore.Store)
		e := newEngine(t, store)
		late := false
		_, _, err := steps.Run(t.Context(), e, order, func(ctx context.Context, op *steps.Op) (int, error) {
			a, _ := ibid.AttemptFrom(ctx)
			if err := store.Extend(ctx, a.Key, a.Token, 0); err != nil { // as if its lease had ended
				t.Fatal(err)
			}
			v, _, err := steps.Run(t.Context(), newEngine(t, store), order, func(context.Context, *steps.Op) (int, error) { return 2, nil })
			if v != 2 || err != nil {
				t.Fatal(v, err)
			}
			return steps.Step(ctx, op, "charge", func(context.Context, steps.StepInfo) (int, error) { late = true; return 1, nil })
		})
		if late || !errors.Is(err, ibid.ErrClaimLost) {
			t.Errorf("step ran: %v, %v", late, err)
		}
	})
}

// Steps may run at the same time.
func TestStepsAtTheSameTime(t *testing.T) {
	t.Parallel()
	e := newEngine(t, new(memstore.Store))
	runs := 0
	for range 2 {
		_, _, err := steps.Run(t.Context(), e, order, func(ctx context.Context, op *steps.Op) (int, error) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for i := range 20 {
				wg.Go(func() {
					v, err := steps.Step(ctx, op, fmt.Sprint(i), func(context.Context, steps.StepInfo) (int, error) {
						mu.Lock()
						defer mu.Unlock()
						runs++
						return i, nil
					})
					if v != i || err != nil {
						t.Errorf("step %d: %d, %v", i, v, err)
					}
				})
			}
			wg.Wait()
			return 0, errors.New("once more")
		})
		if err == nil || !strings.Contains(err.Error(), "once more") {
			t.Fatal(err)
		}
	}
	if runs != 20 {
		t.Errorf("%d runs", runs)
	}
}

func ExampleRun() {
	ctx := context.Background()
	engine, _ := ibid.New(ctx, new(memstore.Store), nil)
	call := ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "order-42"}}
	closed := true
	buy := func(ctx context.Context, op *steps.Op) (string, error) {
		charge, err := steps.Step(ctx, op, "charge", func(ctx context.Context, info steps.StepInfo) (string, error) {
			fmt.Println("charges the card")
			return "ch_1", nil // a real bank gets info.Key as its idempotency key
		})
		if err != nil {
			return "", err
		}
		return steps.Step(ctx, op, "order", func(context.Context, steps.StepInfo) (string, error) {
			if closed {
				return "", steps.NotDone(errors.New("shop is closed"))
			}
			return "order paid with " + charge, nil
		})
	}
	_, _, err := steps.Run(ctx, engine, call, buy)
	fmt.Println(err)
	closed = false
	receipt, _, _ := steps.Run(ctx, engine, call, buy)
	fmt.Println(receipt)
	// Output:
	// charges the card
	// shop is closed
	// order paid with ch_1
}
