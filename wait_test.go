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

func patient(wait time.Duration) ibid.Call { return with(ibid.Policy{Wait: wait}) }

// 10,000 callers of one key: one runs, all that wait get its answer, the store
// is asked a few times, and nobody is left behind.
func TestStormOnOneKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Store: new(memstore.Store)}
		e := newEngine(t, f, &ibid.Options{MaxWaiters: 8000})
		asked := f.all()
		var runs, same, turnedAway atomic.Int64
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				data, _, err := e.Do(t.Context(), patient(time.Minute), func(context.Context) ([]byte, error) {
					runs.Add(1)
					time.Sleep(10 * time.Second)
					return []byte("once"), nil
				})
				var busy *ibid.InProgressError
				switch {
				case err == nil && string(data) == "once":
					same.Add(1)
					data[0] = 'X' // the result belongs to its caller
				case errors.As(err, &busy) && busy.RetryAfter > 0:
					turnedAway.Add(1)
				default:
					t.Errorf("%q %v", data, err)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 || same.Load() != 8001 || turnedAway.Load() != 1999 {
			t.Fatalf("%d ran, %d got the answer, %d were turned away", runs.Load(), same.Load(), turnedAway.Load())
		}
		if n := f.all() - asked; n > 4 {
			t.Fatalf("the store was asked %d times, want begin, a renewal at a third of the lease, and complete", n)
		}
	})
}

// The same over two processes: each polls once for all of its callers.
func TestOnePollPerKeyAndProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := new(memstore.Store)
		f := &faults{Store: mute{store}} // cannot notify
		owner, other := newEngine(t, store, nil), newEngine(t, f, nil)
		go owner.Do(t.Context(), order, func(context.Context) ([]byte, error) {
			time.Sleep(5 * time.Second)
			return []byte("there"), nil
		})
		synctest.Wait()
		asked := f.all()
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				data, _, err := other.Do(t.Context(), patient(time.Minute), fails(errors.New("ran")))
				if err != nil || string(data) != "there" {
					t.Errorf("%q %v", data, err)
				}
			})
		}
		wg.Wait()
		if n := f.all() - asked; n > 25 {
			t.Fatalf("500 callers that waited 5 s asked the store %d times", n)
		}
	})
}

// A store that can notify wakes a waiter long before the next poll.
func TestNotifiedWaiterDoesNotPollOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := new(memstore.Store)
		owner, other := newEngine(t, store, nil), newEngine(t, store, nil)
		began := time.Now()
		go owner.Do(t.Context(), order, func(context.Context) ([]byte, error) {
			time.Sleep(5 * time.Second)
			return nil, nil
		})
		synctest.Wait()
		_, out, err := other.Do(t.Context(), patient(time.Minute), fails(errors.New("ran")))
		if took := time.Since(began); err != nil || !out.Replayed || took != 5*time.Second {
			t.Fatalf("%v %+v after %v, want a replay after 5s", err, out, took)
		}
	})
}

func TestWaiterTakesOver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		policy ibid.Takeover
		first  error // of the attempt that is waited for
		runs   int64
		want   error
	}{
		{"when the owner released", ibid.Refuse, errors.New("busy"), 1, nil},
		{"when the owner vanished, under Retry", ibid.Retry, context.Canceled, 1, nil},
		{"not when the owner vanished, under Refuse", ibid.Refuse, context.Canceled, 0, ibid.ErrUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(memstore.Store)
				owner, other := newEngine(t, store, nil), newEngine(t, store, nil)
				go owner.Do(t.Context(), order, func(context.Context) ([]byte, error) {
					time.Sleep(5 * time.Second)
					return nil, tc.first
				})
				synctest.Wait()
				var runs, answers atomic.Int64
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						_, _, err := other.Do(t.Context(), with(ibid.Policy{Wait: time.Minute, Takeover: tc.policy}), func(context.Context) ([]byte, error) {
							runs.Add(1)
							return nil, nil
						})
						if errors.Is(err, tc.want) {
							answers.Add(1)
						}
					})
				}
				wg.Wait()
				if runs.Load() != tc.runs || answers.Load() != 20 {
					t.Fatalf("%d ran, %d of 20 got the expected answer", runs.Load(), answers.Load())
				}
			})
		})
	}
}

// The one that polls for all others goes away: another takes its place.
func TestLeadIsHandedOn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "out of time"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(memstore.Store)
				owner, other := newEngine(t, store, nil), newEngine(t, store, nil)
				go owner.Do(t.Context(), order, func(context.Context) ([]byte, error) {
					time.Sleep(10 * time.Second)
					return []byte("there"), nil
				})
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wait := time.Minute
				if how == "out of time" {
					wait = 2 * time.Second
				}
				left := make(chan error, 1)
				go func() {
					_, _, err := other.Do(ctx, patient(wait), fails(errors.New("ran")))
					left <- err
				}()
				synctest.Wait() // it leads
				follower := make(chan error, 1)
				go func() {
					data, _, err := other.Do(t.Context(), patient(time.Minute), fails(errors.New("ran")))
					if string(data) != "there" {
						t.Errorf("follower: %q", data)
					}
					follower <- err
				}()
				time.Sleep(2 * time.Second)
				if how == "cancelled" {
					cancel()
					wants(t, <-left, context.Canceled)
				} else {
					wants(t, <-left, ibid.ErrInProgress)
				}
				if err := <-follower; err != nil {
					t.Fatalf("follower: %v", err)
				}
			})
		})
	}
}

func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		var owner sync.WaitGroup
		defer owner.Wait()
		owner.Go(func() {
			e.Do(t.Context(), order, func(context.Context) ([]byte, error) {
				time.Sleep(time.Minute)
				return nil, nil
			})
		})
		synctest.Wait()
		for _, wait := range []time.Duration{-1, 0, time.Millisecond, 5 * time.Second} {
			began := time.Now()
			_, _, err := e.Do(t.Context(), patient(wait), fails(errors.New("ran")))
			wants(t, err, ibid.ErrInProgress)
			if took := time.Since(began); took != max(wait, 0) {
				t.Errorf("Wait %v: answered after %v", wait, took)
			}
		}
	})
}
