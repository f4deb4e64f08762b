package memstore_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

func claim() ibid.Claim {
	return ibid.Claim{Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint{1}, Lease: time.Minute, Window: time.Hour}
}

// own claims key n and fails the test if that is not granted.
func own(t *testing.T, s *memstore.Store, n int, c ibid.Claim) ibid.Claim {
	t.Helper()
	if r, err := s.Begin(t.Context(), digest(n), c); err != nil || !r.OwnedBy(c.Token) {
		t.Fatalf("key %d is not granted: %+v, %v", n, r, err)
	}
	return c
}

func complete(t *testing.T, s *memstore.Store, n int, c ibid.Claim, result string) {
	t.Helper()
	if err := s.Complete(t.Context(), digest(n), c.Token, []byte(result), ibid.Keep{Retain: time.Hour}); err != nil {
		t.Fatalf("key %d: %v", n, err)
	}
}

// A full store refuses new keys, evicts nothing, and serves the keys it holds.
func TestFull(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*memstore.Options{
		"of records": {MaxRecords: 5},
		"of bytes":   {MaxRecords: -1, MaxBytes: 800}, // five records of about 140 bytes
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(opts)
				complete(t, s, 0, own(t, s, 0, claim()), "receipt")
				inProgress := own(t, s, 1, claim())
				released := own(t, s, 2, claim())
				if err := s.Release(t.Context(), digest(2), released.Token); err != nil {
					t.Fatal(err)
				}
				lapsed := own(t, s, 3, claim())
				if err := s.Extend(t.Context(), digest(3), lapsed.Token, 0); err != nil {
					t.Fatal(err)
				}
				short := claim()
				short.Lease, short.Window = time.Second, time.Second
				own(t, s, 4, short)

				for n := 5; n < 50; n++ { // whatever their shards
					if r, err := s.Begin(t.Context(), digest(n), claim()); !errors.Is(err, ibid.ErrFull) {
						t.Fatalf("a new key in a full store: %+v, %v, want ErrFull", r, err)
					}
				}
				if r, err := s.Look(t.Context(), digest(5)); err != nil || r.State != ibid.Absent {
					t.Errorf("a refused key: %+v, %v, want nothing", r, err)
				}
				if r, err := s.Begin(t.Context(), digest(0), claim()); err != nil || string(r.Result) != "receipt" {
					t.Errorf("a replay from a full store: %+v, %v", r, err)
				}
				own(t, s, 1, inProgress) // asked again
				complete(t, s, 1, inProgress, strings.Repeat("large receipt ", 1000))
				own(t, s, 2, claim())
				taker := claim()
				taker.MaxTakeovers = 1
				own(t, s, 3, taker)
				if err := s.Checkpoint(t.Context(), digest(3), taker.Token, []byte("step 1")); err != nil {
					t.Error(err)
				}

				time.Sleep(2 * time.Second) // key 4 is over, in whichever shard
				if name == "of records" {
					own(t, s, 99, claim())
				}
				if _, err := s.Begin(t.Context(), digest(100), claim()); !errors.Is(err, ibid.ErrFull) {
					t.Errorf("a new key in a store that is full again: %v", err)
				}
			})
		})
	}
}

// Many who claim at once do not fill a store beyond its bound.
func TestFullOfMany(t *testing.T) {
	t.Parallel()
	s := memstore.New(&memstore.Options{MaxRecords: 100})
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for n := range 1000 {
		wg.Go(func() {
			c := claim()
			r, err := s.Begin(t.Context(), digest(n), c)
			if err != nil && !errors.Is(err, ibid.ErrFull) {
				t.Error(err)
			}
			if r.OwnedBy(c.Token) {
				mu.Lock()
				granted++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if granted != 100 {
		t.Errorf("%d keys were granted, want 100", granted)
	}
}

// What is over goes without anybody sweeping, and no claim pays for all of it.
func TestClaimsSweepAsTheyGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(nil)
		const n = 5000
		for i := range n {
			own(t, s, i, claim())
		}
		time.Sleep(2 * time.Hour)
		own(t, s, n, claim())
		if held, _ := s.Held(); held < n-10 {
			t.Errorf("one claim dropped %d records", n+1-held)
		}
		for i := range n {
			own(t, s, n+1+i, claim())
		}
		if held, _ := s.Held(); held > n+n/10 {
			t.Errorf("%d records are held after %d claims, of which %d are over", held, n, held-n-1)
		}
		time.Sleep(2 * time.Hour)
		if deleted, err := s.Sweep(t.Context(), 1<<20); err != nil || deleted < n {
			t.Errorf("Sweep deleted %d, %v", deleted, err)
		}
		if held, _ := s.Held(); held != 0 {
			t.Errorf("%d records are held after a sweep", held)
		}
		if records, bytes := s.Counted(); records != 0 || bytes != 0 {
			t.Errorf("an empty store counts %d records of %d bytes", records, bytes)
		}
	})
}

// Whoever stops waiting leaves nothing behind.
func TestWatchLeavesNothing(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	for n := range 100 {
		c := own(t, s, n, claim())
		_, stop1, _ := s.Watch(t.Context(), digest(n))
		_, stop2, _ := s.Watch(t.Context(), digest(n))
		stop1()
		if n%2 == 0 {
			complete(t, s, n, c, "receipt")
		}
		stop2()
		stop2()
	}
	if _, waits := s.Held(); waits != 0 {
		t.Errorf("%d keys are still waited for", waits)
	}
}
