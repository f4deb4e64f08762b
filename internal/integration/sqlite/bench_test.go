package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// BenchmarkSQLiteGroupCommit compares first runs (claim and complete, 300-byte
// results, 64 callers, synchronous FULL) that share commits with the same
// runs at one commit per call. The two take turns; each iteration is a
// round of both.
//
//	go test -run '^$' -bench GroupCommit -benchtime 9x ./sqlite
//
// It reports the medians over the rounds: runs per second of both, their ratio and its
// spread, and the time of one fdatasync of 8 KiB beside the files. Where that
// is under 100 µs the ratio says little: there is nothing to share.
func BenchmarkSQLiteGroupCommit(b *testing.B) {
	alone := openBench(b, 1)
	grouped := openBench(b, 0)
	firstRuns(b, alone, 500)
	firstRuns(b, grouped, 500)
	var one, many, ratio, sync []float64
	for b.Loop() {
		a := firstRuns(b, alone, 700)
		g := firstRuns(b, grouped, 5000)
		one, many, ratio = append(one, a), append(many, g), append(ratio, g/a)
		sync = append(sync, fdatasync(b))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(one), "alone-runs/s")
	b.ReportMetric(median(many), "grouped-runs/s")
	b.ReportMetric(median(ratio), "ratio")
	b.ReportMetric(slices.Min(ratio), "ratio-min")
	b.ReportMetric(slices.Max(ratio), "ratio-max")
	b.ReportMetric(median(sync), "us/fdatasync")
}

// BenchmarkSQLiteReplay measures what a replay costs at 64 callers.
func BenchmarkSQLiteReplay(b *testing.B) {
	s := openBench(b, 0)
	key, c := newKey(), newClaim()
	if _, err := s.Begin(b.Context(), key, c); err != nil {
		b.Fatal(err)
	}
	if err := s.Complete(b.Context(), key, c.Token, make([]byte, 300), ibid.Keep{Retain: long}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r, err := s.Begin(b.Context(), key, c); err != nil || r.State != ibid.Completed {
				b.Error(r.State, err)
			}
		}
	})
}

func openBench(b *testing.B, batch int) *sqlstore.SQLite {
	b.Helper()
	db, err := sql.Open("sqlite", filepath.Join(tempDir(b), "ibid.db"))
	if err != nil {
		b.Fatal(err)
	}
	s, err := sqlstore.OpenSQLite(b.Context(), db, &sqlstore.SQLiteOptions{MaxBatch: batch})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(); db.Close() })
	return s
}

// firstRuns runs n operations from 64 callers and returns how many it did per
// second.
func firstRuns(b *testing.B, s *sqlstore.SQLite, n int) float64 {
	var next atomic.Int64
	var callers sync.WaitGroup
	result := make([]byte, 300)
	start := time.Now()
	for range 64 {
		callers.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := firstRun(s, result); err != nil {
					b.Error(err)
				}
			}
		})
	}
	callers.Wait()
	return float64(n) / time.Since(start).Seconds()
}

func firstRun(s *sqlstore.SQLite, result []byte) error {
	ctx, key, c := context.Background(), newKey(), newClaim()
	r, err := s.Begin(ctx, key, c)
	if err != nil || !r.OwnedBy(c.Token) {
		return fmt.Errorf("Begin: %v, %w", r.State, err)
	}
	return s.Complete(ctx, key, c.Token, result, ibid.Keep{Retain: long})
}

// fdatasync returns how long one takes, in microseconds.
func fdatasync(b *testing.B) float64 {
	f, err := os.Create(filepath.Join(tempDir(b), "sync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []float64
	for range 50 {
		if _, err := f.Write(make([]byte, 8192)); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := syncData(f); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64(time.Since(start))/float64(time.Microsecond))
	}
	return median(took)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
