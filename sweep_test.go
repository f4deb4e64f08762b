package ibid_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// Every call of the store fails, at every point, in every way: the effect of an
// operation happens as often as its policy says, whoever was given an answer
// is never contradicted, and what ran is never reported as not run.
func TestEveryStoreCallFailsAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, takeover := range []ibid.Takeover{ibid.Refuse, ibid.Retry, ibid.Probe} {
		for _, work := range []string{"quick", "longer than its lease", "fails after the effect", "fails before the effect"} {
			for _, mode := range []string{"fails", "is applied and its reply lost", "fails as do all after it", "kills the process", "is applied and kills the process"} {
				for n := 1; n <= 6; n++ {
					name := fmt.Sprintf("%s/%s/call %d %s", takeover, work, n, mode)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { sweepPoint(t, takeover, work, mode, n) })
					})
				}
			}
		}
	}
}

var errDead = errors.New("process is dead")

func sweepPoint(t *testing.T, takeover ibid.Takeover, work, mode string, n int) {
	store := new(memstore.Store)
	newEngine(t, store, nil) // writes the check record
	f := &faults{Store: store}
	e := newEngine(t, f, nil)
	offset := f.all()
	before := func(_ context.Context, _ string, call int) error {
		call -= offset
		switch {
		case mode == "fails" && call == n, mode == "fails as do all after it" && call >= n:
			return errCut
		case mode == "kills the process" && call >= n, mode == "is applied and kills the process" && call > n:
			return errDead
		}
		return nil
	}
	after := func(_ context.Context, _ string, call int) error {
		call -= offset
		switch {
		case mode == "is applied and its reply lost" && call == n:
			return errCut
		case mode == "is applied and kills the process" && call == n:
			return errDead
		}
		return nil
	}
	f.set(before, after)

	effects := 0
	keys := map[string]bool{} // derived keys that effects happened under
	errSoft := errors.New("soft failure")
	first := true
	run := func(ctx context.Context) ([]byte, error) {
		failing := first
		first = false
		if failing && work == "fails before the effect" {
			return nil, errSoft
		}
		if failing && work == "longer than its lease" {
			if err := sleepFor(ctx, 7*time.Second); err != nil {
				return nil, err
			}
		}
		ibid.EffectStarted(ctx)
		effects++
		keys[ibid.DerivedKey(ctx, "charge")] = true
		if failing && work == "fails after the effect" {
			return nil, errSoft
		}
		return fmt.Appendf(nil, "effect %d", effects), nil
	}
	call := with(short(takeover))
	call.Fingerprint = e.Fingerprint([]byte("3000"))
	if takeover == ibid.Probe {
		call.Probe = func(ctx context.Context) (ibid.Found, []byte, error) {
			if effects > 0 {
				return ibid.FoundDone, []byte("effect 1"), nil
			}
			return ibid.FoundNotDone, nil, nil
		}
	}
	answer, _, err := e.Do(t.Context(), call, run)
	killed := mode == "kills the process" || mode == "is applied and kills the process"
	acknowledged := err == nil && !killed
	switch {
	case killed: // nobody was told anything
	case err == nil:
	case errors.Is(err, ibid.ErrUnavailable) && !errors.Is(err, ibid.ErrNotRecorded):
		if effects != 0 {
			t.Fatalf("told %v, but the effect happened", err)
		}
	case errors.Is(err, errSoft) && !errors.Is(err, ibid.ErrUnknown):
		if effects != 0 {
			t.Fatalf("the effect happened and was reported as the failure %v", err)
		}
	case errors.Is(err, ibid.ErrUnknown), errors.Is(err, ibid.ErrNotRecorded), errors.Is(err, ibid.ErrClaimLost):
	default:
		t.Fatalf("unexpected %v", err)
	}

	// The store recovers for the first process, too, unless it is dead; what
	// it owes is paid.
	if !killed {
		f.set(nil, nil)
	}
	time.Sleep(4 * time.Second)
	if !killed {
		if err := e.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first = false
	before2 := effects
	heir := newEngine(t, store, nil)
	var final string
	for range 3 {
		data, _, err := heir.Do(t.Context(), call, run)
		switch {
		case err == nil && final != "" && string(data) != final:
			t.Fatalf("answers differ: %q, then %q", final, data)
		case err == nil:
			final = string(data)
		case errors.Is(err, ibid.ErrUnknown):
			if takeover != ibid.Refuse {
				t.Fatalf("%v under %v", err, takeover)
			}
		default:
			t.Fatalf("the heir: %v", err)
		}
	}
	if acknowledged && final != string(answer) {
		t.Fatalf("acknowledged %q, then answered %q", answer, final)
	}
	limit := 1
	if takeover == ibid.Retry {
		limit = 2
	}
	if effects > limit || takeover != ibid.Retry && before2 == 1 && effects != 1 {
		t.Fatalf("%d effects under %v", effects, takeover)
	}
	if len(keys) > 1 {
		t.Fatalf("effects under different derived keys: %v", keys)
	}
	if killed {
		// The goroutine that pays the dead process's debts gives up in the end.
		time.Sleep(10 * time.Minute)
	}
}

// A Begin whose reply was lost and that cannot be repeated frees the key
// when the store is back: nothing ran under it.
func TestUnresolvedBeginIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := new(memstore.Store)
		f := &faults{Store: store}
		e := newEngine(t, f, nil)
		f.set(func(_ context.Context, verb string, n int) error {
			if verb != "begin" {
				return errCut
			}
			return nil
		}, func(_ context.Context, verb string, _ int) error { return errCut })
		runs := 0
		_, _, err := e.Do(t.Context(), order, returns("", &runs))
		wants(t, err, ibid.ErrUnavailable)
		if !errors.Is(err, errCut) {
			t.Fatalf("%v does not carry the store's own error", err)
		}
		if runs != 0 {
			t.Fatal("ran without an answer of the store")
		}
		time.Sleep(time.Second)
		f.set(nil, nil)
		time.Sleep(5 * time.Second)
		must(t, newEngine(t, store, nil), order, returns("", &runs))
	})
}

// The store is away when the work has ended: the caller waits, then is told,
// and the result is recorded when the store is back.
func TestStoreAwayAtComplete(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		away time.Duration
		want error
		took time.Duration
	}{
		{"back before the caller's patience ends", 4 * time.Second, nil, 6 * time.Second},
		{"back after it", 30 * time.Second, ibid.ErrNotRecorded, 11 * time.Second},
		{"back after the lease", 4 * time.Minute, ibid.ErrNotRecorded, 11 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(memstore.Store)
				f := &faults{Store: store}
				e := newEngine(t, f, nil)
				down := time.Now().Add(tc.away)
				f.set(func(_ context.Context, verb string, _ int) error {
					if verb == "complete" && time.Now().Before(down) {
						return errCut
					}
					return nil
				}, nil)
				runs := 0
				began := time.Now()
				_, _, err := e.Do(t.Context(), order, returns("charged", &runs))
				if took := time.Since(began); !errors.Is(err, tc.want) || took > tc.took {
					t.Fatalf("%v after %v, want %v within %v", err, took, tc.want, tc.took)
				}
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if data, _ := must(t, newEngine(t, store, nil), order, returns("", &runs)); data != "charged" || runs != 1 {
					t.Fatalf("%q after %d runs", data, runs)
				}
			})
		})
	}
}

// A store that hangs holds nobody for longer than it may.
func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"begin", "look", "complete", "release", "extend"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faults{Store: mute{new(memstore.Store)}}
				e := newEngine(t, f, nil)
				go e.Do(t.Context(), order, func(context.Context) ([]byte, error) { time.Sleep(time.Minute); return nil, nil })
				synctest.Wait()
				hang := true
				f.set(func(ctx context.Context, v string, _ int) error {
					if v == verb && hang {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}, nil)
				other := order
				other.Key.ID = "2"
				began := time.Now()
				e.Do(t.Context(), patient(20*time.Second), fails(errCut))
				e.Do(t.Context(), other, fails(errCut))
				e.Do(t.Context(), other, fails(context.Canceled))
				if took := time.Since(began); took > 45*time.Second {
					t.Errorf("three calls took %v", took)
				}
				f.set(nil, nil)
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestFailOpenOnlyOnANamedGuard(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, guard string
		cause       error
		runs        int
	}{
		{"without a guard nothing runs", "", errCut, 0},
		{"with one the work runs", "payments_order_id_key", errCut, 1},
		{"without one a damaged record runs nothing", "", ibid.ErrDamaged, 0},
		{"without one a full store runs nothing", "", ibid.ErrFull, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faults{Store: new(memstore.Store)}
				e := newEngine(t, f, nil)
				f.set(func(context.Context, string, int) error { return tc.cause }, nil)
				runs := 0
				_, out, err := e.Do(t.Context(), with(ibid.Policy{Guard: tc.guard}), func(ctx context.Context) ([]byte, error) {
					runs++
					a, ok := ibid.AttemptFrom(ctx)
					if !ok || a.Guard != tc.guard || !a.Token.IsZero() {
						t.Errorf("the work does not see that it is unguarded: %+v", a)
					}
					return nil, nil
				})
				if runs != tc.runs || out.Guard != tc.guard || (err == nil) != (tc.runs == 1) {
					t.Fatalf("%d runs, %+v, %v", runs, out, err)
				}
				if err != nil && !errors.Is(err, tc.cause) {
					t.Fatalf("%v does not say why", err)
				}
				time.Sleep(10 * time.Minute)
			})
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		runs := 0
		must(t, e, order, returns("earlier", &runs))
		running := order
		running.Key.ID = "running"
		go e.Do(t.Context(), running, func(context.Context) ([]byte, error) {
			time.Sleep(10 * time.Second)
			return nil, nil
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wants(t, e.Drain(ctx), context.DeadlineExceeded) // work still runs
		began := time.Now()
		if err := e.Drain(t.Context()); err != nil || time.Since(began) != 9*time.Second {
			t.Fatalf("drained after %v: %v", time.Since(began), err)
		}
		if data, _ := must(t, e, order, returns("", &runs)); data != "earlier" {
			t.Fatalf("replay: %q", data)
		}
		fresh := order
		fresh.Key.ID = "fresh"
		_, _, err := e.Do(t.Context(), fresh, returns("", &runs))
		wants(t, err, ibid.ErrDraining)
		if runs != 1 {
			t.Fatal("claimed while draining")
		}
	})
}
