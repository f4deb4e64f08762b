package ibid_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// An earlier attempt vanished, and the last one that may be made failed: "use a
// new key" would do its effect twice.
func TestTooManyAttemptsHideNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	call := with(ibid.Policy{Takeover: ibid.Retry, MaxAttempts: 2})
	e.Do(t.Context(), call, fails(context.Canceled))
	_, _, err := e.Do(t.Context(), call, fails(errCut))
	wants(t, err, errCut)
	_, _, err = e.Do(t.Context(), call, returns("", new(int)))
	wants(t, err, ibid.ErrUnknown)
}

// A call that waits when the engine is drained claims nothing any more.
func TestDrainLetsNoWaiterClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		call := with(ibid.Policy{Wait: time.Minute})
		var done sync.WaitGroup
		done.Go(func() {
			e.Do(t.Context(), call, func(context.Context) ([]byte, error) {
				time.Sleep(10 * time.Second)
				return nil, errCut // the key is free again
			})
		})
		time.Sleep(time.Second)
		runs := 0
		for range 3 {
			done.Go(func() {
				_, _, err := e.Do(t.Context(), call, returns("late", &runs))
				wants(t, err, ibid.ErrDraining)
			})
		}
		time.Sleep(time.Second)
		if err := e.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		done.Wait()
		if runs != 0 {
			t.Fatalf("%d runs after the engine was drained", runs)
		}
	})
}

// MaxWaiters bounds those, too, that wait for an attempt of another process.
func TestMaxWaitersOverProcesses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		max     int
		waiting int64
	}{{-1, 0}, {1, 1}, {2, 2}} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memstore.Store)
			here, there := newEngine(t, store, &ibid.Options{MaxWaiters: tc.max}), newEngine(t, store, nil)
			keys := []string{"a", "b", "c", "d"}
			var done sync.WaitGroup
			for _, id := range keys {
				done.Go(func() {
					must(t, there, ibid.Call{Key: ibid.Key{Scope: "shop", ID: id}}, func(context.Context) ([]byte, error) {
						time.Sleep(10 * time.Second)
						return []byte(id), nil
					})
				})
			}
			time.Sleep(time.Second)
			var waited atomic.Int64
			for _, id := range keys {
				done.Go(func() {
					call := with(ibid.Policy{Wait: time.Minute})
					call.Key.ID = id
					began := time.Now()
					data, _, err := here.Do(t.Context(), call, returns("twice", new(int)))
					if time.Since(began) > time.Second {
						waited.Add(1)
						if err != nil || string(data) != id {
							t.Errorf("%q %v", data, err)
						}
						return
					}
					wants(t, err, ibid.ErrInProgress)
				})
				synctest.Wait()
			}
			done.Wait()
			if waited.Load() != tc.waiting {
				t.Errorf("MaxWaiters %d: %d calls waited", tc.max, waited.Load())
			}
		})
	}
}

// A pager stops at a short page: none may be short because of a record that is
// the engine's own.
func TestListFillsItsPages(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	for i := range 40 {
		call := order
		call.Key.ID = string(rune('a' + i))
		must(t, e, call, returns("", new(int)))
	}
	var after ibid.Digest
	seen := 0
	for {
		page, err := e.List(t.Context(), "", nil, after, 8)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page)
		if len(page) < 8 {
			break
		}
		after = page[7].Key
	}
	if seen != 40 {
		t.Fatalf("%d of 40 keys listed", seen)
	}
	for _, limit := range []int{0, -1} {
		if page, err := e.List(t.Context(), "", nil, after, limit); err != nil || len(page) != 0 {
			t.Errorf("limit %d: %d keys, %v", limit, len(page), err)
		}
	}
}

// describing is a store whose settings cannot be read.
type describing struct{ *faults }

func (d describing) Describe(ctx context.Context) (ibid.Description, error) {
	<-ctx.Done()
	return ibid.Description{}, ctx.Err()
}

// A store that hangs holds nobody up for longer than StoreTimeout says.
func TestStoreThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ string, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}
	const limit = time.Second
	within := func(t *testing.T, what string, d time.Duration, f func() error) {
		t.Helper()
		began := time.Now()
		if err := f(); !errors.Is(err, ibid.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(began); took > d {
			t.Errorf("%s took %v", what, took)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Store: new(memstore.Store)}
		opts := &ibid.Options{StoreTimeout: limit, AnswerTimeout: 3 * limit, RecordTimeout: 10 * limit}
		e := newEngine(t, f, opts)
		e.Do(t.Context(), order, fails(context.Canceled))
		key := e.Digest(order.Key)
		op, err := e.Inspect(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		f.set(hang, nil)
		within(t, "New", 2*limit, func() error { _, err := ibid.New(t.Context(), f, opts); return err })
		within(t, "New with Require", limit, func() error {
			o := *opts
			o.Require = ibid.ProcessKill
			_, err := ibid.New(t.Context(), describing{f}, &o)
			return err
		})
		within(t, "Inspect", limit, func() error { _, err := e.Inspect(t.Context(), key); return err })
		within(t, "Resolve", limit, func() error { return e.Resolve(t.Context(), key, op.Record.Token, ibid.Resolution{}) })
		call := order
		call.Key.ID = "other"
		within(t, "Do", limit, func() error { _, _, err := e.Do(t.Context(), call, returns("", new(int))); return err })
		call.Policy = &ibid.Policy{Wait: time.Hour}
		within(t, "Do that may wait", limit, func() error { _, _, err := e.Do(t.Context(), call, returns("", new(int))); return err })
		began := time.Now()
		f.set(func(ctx context.Context, verb string, n int) error {
			if verb != "begin" {
				return hang(ctx, verb, n)
			}
			return nil
		}, nil)
		_, _, err = e.Do(t.Context(), call, returns("", new(int)))
		wants(t, err, ibid.ErrNotRecorded)
		if took := time.Since(began); took > 3*limit {
			t.Errorf("a result that cannot be recorded took %v", took)
		}
		began = time.Now()
		call.Key.ID = "third"
		_, _, err = e.Do(t.Context(), call, fails(errCut))
		wants(t, err, errCut)
		if took := time.Since(began); took > limit {
			t.Errorf("a release took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		wants(t, e.Drain(ctx), context.DeadlineExceeded)
		f.set(nil, nil)
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkThatIsNil(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	_, _, err := e.Do(t.Context(), order, nil)
	wants(t, err, ibid.ErrInvalid)
	_, _, err = ibid.Do[int](t.Context(), e, order, nil)
	wants(t, err, ibid.ErrInvalid)
	must(t, e, order, returns("ran", new(int)))
}

// A caller that goes away while its key is claimed leaves a free key behind:
// work on a dead context would leave an unknown outcome, of nothing.
func TestCallerGoneBeforeTheWorkBegins(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		detach bool
		runs   int
	}{
		{"work that obeys its caller does not begin", false, 0},
		{"detached work does: it is claimed", true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := new(endings)
			f := &faults{Store: new(memstore.Store)}
			e := newEngine(t, f, &ibid.Options{Observe: []func(context.Context, ibid.Event){n.observe}})
			ctx, cancel := context.WithCancel(t.Context())
			f.set(nil, func(_ context.Context, verb string, _ int) error {
				if verb == "begin" {
					cancel()
				}
				return nil
			})
			runs := 0
			_, _, err := e.Do(ctx, with(ibid.Policy{Detach: tc.detach}), returns("ran", &runs))
			if runs != tc.runs || errors.Is(err, context.Canceled) == tc.detach {
				t.Fatalf("%d runs, %v", runs, err)
			}
			f.set(nil, nil)
			must(t, e, order, returns("ran", &runs))
			if runs != 1 {
				t.Fatalf("%d runs in all", runs)
			}
			if got := n.take(); len(got) != 2 {
				t.Fatalf("two calls ended as %v", got)
			}
		})
	}
}
