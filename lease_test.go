package ibid_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// short is a policy whose lease ends while the tests' work runs.
func short(takeover ibid.Takeover) ibid.Policy {
	return ibid.Policy{Takeover: takeover, Lease: 3 * time.Second, MaxRun: time.Minute, Retain: time.Hour}
}

func TestWorkLongerThanItsLeaseKeepsTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		call := with(short(ibid.Retry))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, err := e.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
				return []byte("slow"), sleepFor(ctx, 30*time.Second)
			})
			if err != nil {
				t.Errorf("slow work: %v", err)
			}
		}()
		runs := 0
		for range 29 {
			time.Sleep(time.Second)
			_, _, err := e.Do(t.Context(), call, returns("", &runs))
			wants(t, err, ibid.ErrInProgress)
		}
		<-done
		if data, _ := must(t, e, call, returns("", &runs)); data != "slow" || runs != 0 {
			t.Fatalf("%q after %d runs", data, runs)
		}
	})
}

// sleepFor waits for d or until ctx ends, and returns what ended it.
func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// An owner that stalls past its lease, and completes when another has taken
// over, learns the other's answer.
func TestZombieGetsTheStoredAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := new(memstore.Store)
		stalled := &faults{Store: store} // the first process: its renewals do not arrive
		stalled.set(func(_ context.Context, verb string, _ int) error {
			if verb == "extend" {
				return errCut
			}
			return nil
		}, nil)
		zombie, heir := newEngine(t, stalled, nil), newEngine(t, store, nil)
		call := with(short(ibid.Retry))
		var effects atomic.Int64
		got := make(chan string)
		go func() {
			data, out, err := zombie.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
				time.Sleep(10 * time.Second) // does not look at its context
				if cause := context.Cause(ctx); !errors.Is(cause, ibid.ErrClaimLost) {
					t.Errorf("the work was not told that its claim is lost: %v", cause)
				}
				effects.Add(1)
				return []byte("zombie's"), nil
			})
			if err != nil || !out.Replayed {
				t.Errorf("zombie: %v %+v", err, out)
			}
			got <- string(data)
		}()
		time.Sleep(5 * time.Second)
		data, out := must(t, heir, call, func(context.Context) ([]byte, error) {
			effects.Add(1)
			return []byte("heir's"), nil
		})
		if data != "heir's" || out.Attempt != 2 {
			t.Fatalf("heir: %q %+v", data, out)
		}
		if z := <-got; z != "heir's" {
			t.Fatalf("the zombie answered %q", z)
		}
		if again, _ := must(t, heir, call, fails(errors.New("ran"))); again != "heir's" {
			t.Fatalf("the zombie's result was recorded: %q", again)
		}
		if effects.Load() != 2 {
			t.Fatalf("%d effects, the oracle of this test is broken", effects.Load())
		}
	})
}

// The same under each policy: who runs, and how often the effect happens.
func TestTakeoverPolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		policy  ibid.Takeover
		found   ibid.Found
		effects int // of the heir
		probes  int
		want    error
	}{
		{"Refuse never runs again", ibid.Refuse, 0, 0, 0, ibid.ErrUnknown},
		{"Retry runs again", ibid.Retry, 0, 1, 0, nil},
		{"Probe that finds the effect runs nothing", ibid.Probe, ibid.FoundDone, 0, 1, nil},
		{"Probe that finds none runs again", ibid.Probe, ibid.FoundNotDone, 1, 1, nil},
		{"Probe that cannot tell runs nothing", ibid.Probe, ibid.FoundUnknown, 0, 1, ibid.ErrUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, nil, nil)
				call := with(short(tc.policy))
				probes, effects := 0, 0
				derived := ""
				if tc.policy == ibid.Probe {
					call.Probe = func(ctx context.Context) (ibid.Found, []byte, error) {
						probes++
						if got := ibid.DerivedKey(ctx, "charge"); got != derived {
							t.Errorf("the probe asks for %s, the charge was made under %s", got, derived)
						}
						return tc.found, []byte("found"), nil
					}
				}
				_, _, err := e.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
					derived = ibid.DerivedKey(ctx, "charge")
					return nil, context.Canceled
				})
				wants(t, err, ibid.ErrUnknown)
				data, _, err := e.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
					effects++
					a, _ := ibid.AttemptFrom(ctx)
					if a.Number != 2 || a.Vanished != 1 {
						t.Errorf("the work was not told of the vanished attempt: %+v", a)
					}
					if got := ibid.DerivedKey(ctx, "charge"); got != derived {
						t.Errorf("the derived key changed from %s to %s", derived, got)
					}
					return []byte("ran"), nil
				})
				if !errors.Is(err, tc.want) || effects != tc.effects || probes != tc.probes {
					t.Fatalf("%v, %d effects, %d probes", err, effects, probes)
				}
				if tc.found == ibid.FoundDone && string(data) != "found" {
					t.Fatalf("the probe's result was not returned: %q", data)
				}
				if tc.want == nil {
					again, out := must(t, e, call, returns("", &effects))
					if again != string(data) || !out.Replayed {
						t.Fatalf("not recorded: %q", again)
					}
				}
			})
		})
	}
}

// A probe that fails, or panics, leaves the outcome as unknown as it was.
func TestProbeThatFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		probe ibid.Prober
	}{
		{"error", func(context.Context) (ibid.Found, []byte, error) { return ibid.FoundNotDone, nil, errCut }},
		{"panic", func(context.Context) (ibid.Found, []byte, error) { panic("boom") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, nil, nil)
			call := with(short(ibid.Probe))
			call.Probe = tc.probe
			e.Do(t.Context(), call, fails(context.Canceled))
			runs := 0
			func() {
				defer func() { _ = recover() }()
				_, _, err := e.Do(t.Context(), call, returns("", &runs))
				wants(t, err, ibid.ErrUnknown)
			}()
			op, err := e.Inspect(t.Context(), e.Digest(order.Key))
			if err != nil || op.Record.State != ibid.Lapsed || runs != 0 {
				t.Fatalf("%v: %v after %d runs, want lapsed", err, op.Record.State, runs)
			}
		})
	}
}

// An outage of the store cancels work that another may take over, and no other.
func TestOutageWhileWorkRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy ibid.Takeover
		cause  error
	}{{ibid.Refuse, nil}, {ibid.Retry, ibid.ErrClaimLost}, {ibid.Probe, ibid.ErrClaimLost}} {
		t.Run(tc.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faults{Store: new(memstore.Store)}
				f.set(func(_ context.Context, verb string, _ int) error {
					if verb == "extend" {
						return errCut
					}
					return nil
				}, nil)
				e := newEngine(t, f, nil)
				call := with(short(tc.policy))
				if tc.policy == ibid.Probe {
					call.Probe = func(context.Context) (ibid.Found, []byte, error) { return 0, nil, nil }
				}
				began := time.Now()
				_, _, err := e.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
					cause := sleepFor(ctx, 20*time.Second)
					if !errors.Is(cause, tc.cause) {
						t.Errorf("cause %v, want %v", cause, tc.cause)
					}
					if ran := time.Since(began); tc.cause != nil && ran >= 3*time.Second {
						t.Errorf("cancelled after %v, when the lease of 3s was over", ran)
					}
					return []byte("done"), nil // late, but nobody took over
				})
				if err != nil {
					t.Fatalf("a late result that nobody contests was not recorded: %v", err)
				}
			})
		})
	}
}

func TestMaxRunIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		call := with(short(ibid.Refuse))
		ended := make(chan error)
		go func() {
			_, _, err := e.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
				if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != time.Minute {
					t.Errorf("deadline %v %v, want MaxRun", deadline, ok)
				}
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, ibid.ErrMaxRun) {
					t.Errorf("cause %v", cause)
				}
				time.Sleep(time.Hour / 2) // hangs on
				return nil, errors.New("too late to know")
			})
			ended <- err
		}()
		time.Sleep(time.Minute + 3*time.Second + 1)
		runs := 0
		_, _, err := e.Do(t.Context(), call, returns("", &runs))
		wants(t, err, ibid.ErrUnknown) // the lease was no longer renewed
		wants(t, <-ended, ibid.ErrUnknown)
		if runs != 0 {
			t.Fatal("ran again")
		}
	})
}

// A success that comes after MaxRun is recorded all the same: it happened.
func TestLateSuccessIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		call := with(short(ibid.Refuse))
		data, _ := must(t, e, call, func(context.Context) ([]byte, error) {
			time.Sleep(2 * time.Minute)
			return []byte("late"), nil
		})
		runs := 0
		if again, _ := must(t, e, call, returns("", &runs)); data != "late" || again != "late" {
			t.Fatalf("%q, then %q", data, again)
		}
	})
}

// A renewal that the store applies after the claim was taken over must not
// steal it back.
func TestRenewalNeverStealsTheClaimBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := new(memstore.Store)
		slow := &faults{Store: store}
		slow.set(func(_ context.Context, verb string, _ int) error {
			if verb == "extend" {
				time.Sleep(20 * time.Second) // on the wire
			}
			return nil
		}, nil)
		first, second := newEngine(t, slow, nil), newEngine(t, store, nil)
		call := with(short(ibid.Retry))
		ended := make(chan error)
		go func() {
			_, _, err := first.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
				time.Sleep(25 * time.Second)
				return []byte("first"), nil
			})
			ended <- err
		}()
		time.Sleep(10 * time.Second)
		_, _, err := second.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
			time.Sleep(20 * time.Second)
			return []byte("second"), context.Cause(ctx)
		})
		if err != nil {
			t.Fatalf("the heir lost its claim: %v", err)
		}
		if err := <-ended; err == nil || !errors.Is(err, ibid.ErrClaimLost) {
			t.Fatalf("the first owner: %v, want ErrClaimLost while the heir is in progress", err)
		}
	})
}

// No renewal is under way when the result is recorded: it could revive a lease
// of a record that is already another's.
func TestRenewalHasEndedBeforeTheResultIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Store: new(memstore.Store)}
		var renewing atomic.Bool
		f.set(func(_ context.Context, verb string, _ int) error {
			switch verb {
			case "extend":
				renewing.Store(true)
				time.Sleep(800 * time.Millisecond)
				renewing.Store(false)
			case "complete":
				if renewing.Load() {
					t.Error("recorded while a renewal was under way")
				}
			}
			return nil
		}, nil)
		e := newEngine(t, f, nil)
		must(t, e, with(short(ibid.Refuse)), func(context.Context) ([]byte, error) {
			time.Sleep(1200 * time.Millisecond) // the first renewal is due after 1 s
			return nil, nil
		})
		if f.count("extend") != 1 {
			t.Fatalf("%d renewals", f.count("extend"))
		}
	})
}

// A function keeps its caller's context; detached work does not, and neither
// does the recording of a result.
func TestCallerThatHangsUp(t *testing.T) {
	t.Parallel()
	type valueKey struct{}
	for _, detached := range []bool{false, true} {
		e := newEngine(t, nil, nil)
		ctx, hangUp := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "kept"))
		errGone := errors.New("gone")
		call := with(ibid.Policy{Detach: detached})
		data, _, err := e.Do(ctx, call, func(ctx context.Context) ([]byte, error) {
			hangUp(errGone)
			if got := ctx.Err() != nil; got == detached {
				t.Errorf("detached %v: the work's context ended: %v", detached, got)
			}
			if cause := context.Cause(ctx); (cause == nil) != detached {
				t.Errorf("detached %v: cause %v", detached, cause)
			}
			if ctx.Value(valueKey{}) != "kept" {
				t.Errorf("detached %v: the context lost its values", detached)
			}
			return []byte("done"), nil
		})
		if err != nil || string(data) != "done" {
			t.Fatalf("detached %v: %q %v", detached, data, err)
		}
		runs := 0
		if again, _ := must(t, e, call, returns("", &runs)); again != "done" {
			t.Fatalf("detached %v: the result was lost with its caller", detached)
		}
	}
}

// The work's context must behave as one for everything that derives from it.
func TestWorkContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		must(t, e, with(short(ibid.Refuse)), func(ctx context.Context) ([]byte, error) {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			if d, _ := child.Deadline(); time.Until(d) != time.Minute {
				t.Errorf("a child lives %v, longer than MaxRun", time.Until(d))
			}
			after := make(chan struct{})
			context.AfterFunc(ctx, func() { close(after) })
			<-child.Done()
			<-after
			if ctx.Err() == nil || !errors.Is(context.Cause(child), context.DeadlineExceeded) && !errors.Is(context.Cause(child), ibid.ErrMaxRun) {
				t.Errorf("%v, child's cause %v", ctx.Err(), context.Cause(child))
			}
			return nil, nil
		})
	})
}
