package pg_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/pgxstore"
)

var (
	rounds = flag.Int("rounds", 0, "rounds of TestRates; 0 skips it")
	slice  = flag.Duration("slice", time.Second, "how long each contestant runs in each round")
)

// TestRates measures the store against plain statements on the same pool, in
// turns within one run, so that a busy machine is busy for both:
//
//	go test ./pg -run TestRates -rounds 5 -v
func TestRates(t *testing.T) {
	if *rounds == 0 {
		t.Skip("measures nothing unless -rounds is given")
	}
	server := private(t)
	pool := newPool(t, server.URL, func(c *pgxpool.Config) { c.MaxConns = 64 })
	result := make([]byte, 300)
	rand.Read(result)
	store, table := openNew(t, pool)
	ctx := t.Context()
	if _, err := pool.Exec(ctx, "CREATE TABLE plain (key bytea PRIMARY KEY, state int2, token bytea, fingerprint bytea, gone int8, result bytea)"); err != nil {
		t.Fatal(err)
	}
	claim := func() ibid.Claim {
		c := ibid.Claim{Token: ibid.NewToken(), Lease: 30 * time.Second, Window: 24 * time.Hour}
		rand.Read(c.Fingerprint[:])
		return c
	}
	keep := ibid.Keep{Retain: 24 * time.Hour}
	first := func(s *pgxstore.Store) func() error {
		return func() error {
			k, c := newKey(), claim()
			r, err := s.Begin(ctx, k, c)
			if err != nil || !r.OwnedBy(c.Token) {
				return fmt.Errorf("begin: %v %w", r.State, err)
			}
			return s.Complete(ctx, k, c.Token, result, keep)
		}
	}
	plain := func() error {
		k, c := newKey(), claim()
		if _, err := pool.Exec(ctx, "INSERT INTO plain VALUES ($1, 1, $2, $3, $4, NULL)", k[:], c.Token[:], c.Fingerprint[:], int64(1)); err != nil {
			return err
		}
		_, err := pool.Exec(ctx, "UPDATE plain SET state = 2, result = $3, gone = $4 WHERE key = $1 AND token = $2", k[:], c.Token[:], result, int64(2))
		return err
	}
	var stored, plainly []ibid.Digest
	for range 1000 {
		k, c := newKey(), claim()
		stored = append(stored, k)
		_, err1 := store.Begin(ctx, k, c)
		err2 := store.Complete(ctx, k, c.Token, result, keep)
		_, err3 := pool.Exec(ctx, "INSERT INTO plain VALUES ($1, 2, $2, $3, 0, $4)", k[:], c.Token[:], c.Fingerprint[:], result)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		plainly = append(plainly, k)
	}
	var n atomic.Uint64
	replay := func() error {
		r, err := store.Begin(ctx, stored[n.Add(1)%1000], claim())
		if err == nil && r.State != ibid.Completed {
			err = fmt.Errorf("%v", r.State)
		}
		return err
	}
	read := func() error {
		k := plainly[n.Add(1)%1000]
		var token, print, res []byte
		var gone int64
		return pool.QueryRow(ctx, "SELECT token, fingerprint, gone, result FROM plain WHERE key = $1", k[:]).Scan(&token, &print, &gone, &res)
	}
	// Every connection plans its statements before anything is measured.
	for _, f := range []func() error{first(open(t, pool, &pgxstore.Options{Table: table, BatchFrom: -1})), first(store), plain, replay, read} {
		rate(t, server, 64, f)
		rate(t, server, 64, f)
	}
	for _, callers := range []int{1, 16, 64} {
		for _, c := range []struct {
			name         string
			store, plain func() error
		}{{"first run / two commits", first(store), plain}, {"replay / select", replay, read}} {
			var ratios, mine, theirs, myTime, theirTime []float64
			for range *rounds {
				a, at := rate(t, server, callers, c.store)
				b, bt := rate(t, server, callers, c.plain)
				mine, theirs, ratios = append(mine, a), append(theirs, b), append(ratios, a/b)
				myTime, theirTime = append(myTime, at), append(theirTime, bt)
			}
			t.Logf("%-24s %2d callers: %.2f (%.2f–%.2f)   %6.0f/s against %6.0f/s   processor time %4.0f µs against %4.0f µs: %.2f", c.name, callers,
				median(ratios), slices.Min(ratios), slices.Max(ratios), median(mine), median(theirs),
				median(myTime), median(theirTime), median(theirTime)/median(myTime))
		}
	}
}

func median(f []float64) float64 {
	f = slices.Clone(f)
	slices.Sort(f)
	return f[len(f)/2]
}

// rate returns how often per second f runs, and the microseconds of processor
// time that each run takes, here and in the server.
func rate(t *testing.T, server *servers.Postgres, callers int, f func() error) (perSecond, micros float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *slice)
	defer cancel()
	var done atomic.Int64
	var wg sync.WaitGroup
	began, was := time.Now(), processorTime(server)
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	n := float64(done.Load())
	return n / time.Since(began).Seconds(), float64((processorTime(server) - was).Microseconds()) / n
}

// processorTime returns what this process and the server's have used.
func processorTime(server *servers.Postgres) time.Duration {
	var own syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	total := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	for _, pid := range server.Processes() {
		var ran int64
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		_, _ = fmt.Sscan(string(b), &ran)
		total += time.Duration(ran)
	}
	return total
}
