package layered_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/layered"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/storetest"
)

// lying is a front that answers Begin as it likes.
type lying struct {
	ibid.Store
	begin func(ctx context.Context, real ibid.Store, key ibid.Digest, c ibid.Claim) (ibid.Record, error)
}

func (l lying) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	return l.begin(ctx, l.Store, key, c)
}

// fronts are what a front may be at its worst, short of making up a copy byte
// for byte.
func fronts() map[string]func() ibid.Store {
	lie := func(begin func(context.Context, ibid.Store, ibid.Digest, ibid.Claim) (ibid.Record, error)) func() ibid.Store {
		return func() ibid.Store { return lying{memstore.New(nil), begin} }
	}
	answer := func(r ibid.Record) func() ibid.Store {
		return lie(func(context.Context, ibid.Store, ibid.Digest, ibid.Claim) (ibid.Record, error) { return r, nil })
	}
	failing := func(err error) func() ibid.Store {
		return func() ibid.Store {
			s := newStub()
			s.fail(err)
			return s
		}
	}
	return map[string]func() ibid.Store{
		"is down":                      failing(errAway),
		"is full":                      failing(ibid.ErrFull),
		"finds everything damaged":     failing(ibid.ErrDamaged),
		"knows nothing":                answer(ibid.Record{}),
		"says that all is expired":     answer(ibid.Record{State: ibid.Expired, Window: time.Hour}),
		"says that others are at work": answer(ibid.Record{State: ibid.InProgress, Token: ibid.Token{9}, Lease: time.Hour}),
		"answers with an empty result": answer(ibid.Record{State: ibid.Completed, Window: time.Hour, Result: []byte{}}),
		"answers with rubbish":         answer(ibid.Record{State: ibid.Completed, Window: time.Hour, Result: []byte("HTTP/1.1 201 Created")}),
		"says that all is yours": lie(func(_ context.Context, _ ibid.Store, _ ibid.Digest, c ibid.Claim) (ibid.Record, error) {
			return ibid.Record{State: ibid.InProgress, Token: c.Token, Fingerprint: c.Fingerprint, Lease: time.Hour, Window: time.Hour}, nil
		}),
		"mixes up keys": lie(func(ctx context.Context, real ibid.Store, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
			if r, err := real.Begin(ctx, key, c); err != nil || r.State != ibid.Completed {
				return r, err
			}
			entries, err := real.(ibid.Inspector).List(ctx, ibid.Filter{States: []ibid.State{ibid.Completed}}, ibid.Digest{}, 10)
			if err != nil || len(entries) == 0 || entries[0].Key == key {
				return ibid.Record{}, err
			}
			return real.Look(ctx, entries[0].Key)
		}),
		"alters what it keeps": lie(func(ctx context.Context, real ibid.Store, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
			r, err := real.Begin(ctx, key, c)
			if len(r.Result) > 0 {
				r.Result[len(r.Result)/2] ^= 1
			}
			return r, err
		}),
		// For good: one that finds again what it had lost may replay a forgotten
		// key for as long as FrontTTL, as between processes.
		"loses every second key": lie(func(ctx context.Context, real ibid.Store, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
			if (key[0]^key[31])%2 == 0 {
				return ibid.Record{}, nil
			}
			return real.Begin(ctx, key, c)
		}),
	}
}

// A front that is down, lies or loses what it was given costs no promise: the
// contract holds all the same.
func TestContractOverBadFronts(t *testing.T) {
	t.Parallel()
	for name, open := range fronts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunIn(t, storetest.Target{
				Open: func(context.Context) (ibid.Store, func() error, error) {
					return warm{layered.New(memstore.New(nil), &layered.Options{Front: open(), MaxRecords: -1, FrontPause: -1})}, nil, nil
				},
				Tick: time.Second, Resolution: 1, FakeClock: true, Parallel: true, Callers: 20,
			}, synctest.Test)
		})
	}
}

// A front that does not answer costs each caller FrontTimeout at most, and few
// of them.
func TestASlowFront(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		decides, front := newStub(), newStub()
		hang := func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		front.before = hang
		s := layered.New(decides, &layered.Options{Front: front, MaxRecords: -1, FrontTimeout: 20 * time.Millisecond})
		k := digest("k")
		completed(t, decides, k, "paid", forADay)
		slow := 0
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
			asked := time.Now()
			replays(t, "past a slow front", s, k, "paid")
			switch took := time.Since(asked); {
			case took > 20*time.Millisecond:
				t.Fatalf("a caller waited %v for the front", took)
			case took > 0:
				slow++
			}
		}
		// 100 ms, doubled to 5 s, each between a half and all of it.
		if n := front.calls.Load(); n < 10 || n > 40 || int64(slow) != n || s.Counts().FrontFailed != n {
			t.Errorf("the front was asked %d times in a minute, and %d callers waited", n, slow)
		}
		front.before = nil
		time.Sleep(5 * time.Second)
		replays(t, "the front is back", s, k, "paid")
		before := decides.calls.Load()
		replays(t, "from the front", s, k, "paid")
		if decides.calls.Load() != before {
			t.Error("a front that is back is not asked")
		}
	})
}

// While the front is left alone, one caller finds out whether it is back, and
// the others do not wait for it.
func TestOneFindsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		decides, front := newStub(), newStub()
		s := layered.New(decides, &layered.Options{Front: front, MaxRecords: -1})
		front.fail(errAway)
		k := digest("k")
		completed(t, s, k, "paid", forADay)
		time.Sleep(time.Minute)
		front.heal()
		front.before = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		before := front.calls.Load()
		for range 20 {
			go replays(t, "meanwhile", s, k, "paid")
		}
		synctest.Wait()
		if n := front.calls.Load() - before; n != 1 {
			t.Errorf("%d callers wait for the front, want 1", n)
		}
		time.Sleep(time.Second)
	})
}

// A caller that goes away says nothing of the front.
func TestACallerThatGoesAway(t *testing.T) {
	t.Parallel()
	decides, front := newStub(), newStub()
	s := layered.New(decides, &layered.Options{Front: front, MaxRecords: -1})
	ctx, cancel := context.WithCancel(t.Context())
	front.before = func(context.Context, string) error {
		cancel()
		return context.Canceled
	}
	if _, err := s.Begin(ctx, digest("k"), claim()); err == nil {
		t.Error("a caller that is gone was answered")
	}
	front.before = nil
	before := front.calls.Load()
	begin(t, s, digest("k"))
	if front.calls.Load() == before || s.Counts().FrontFailed != 0 {
		t.Error("the front is left alone because a caller went away")
	}
}
