package memstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
	"github.com/ibid-go/ibid/memstore"
)

// digest returns the n-th key of a test, spread over the shards by the store.
func digest(n int) (k ibid.Digest) {
	binary.LittleEndian.PutUint64(k[:], uint64(n))
	return k
}

// fill completes n keys with results of size bytes, and returns what a record
// is at rest: its key and its bytes.
func fill(tb testing.TB, s *memstore.Store, n, size int) (payload int) {
	tb.Helper()
	ctx := context.Background()
	result := make([]byte, size)
	claim := ibid.Claim{Fingerprint: ibid.Fingerprint{1}, Scope: ibid.Digest{2}, Lease: 30 * time.Second, Window: 24 * time.Hour}
	for i := range n {
		binary.LittleEndian.PutUint64(claim.Token[:], uint64(i)+1)
		r, err := s.Begin(ctx, digest(i), claim)
		if err != nil || !r.OwnedBy(claim.Token) {
			tb.Fatalf("key %d: %+v, %v", i, r, err)
		}
		if err := s.Complete(ctx, digest(i), claim.Token, result, ibid.Keep{Retain: 24 * time.Hour}); err != nil {
			tb.Fatal(err)
		}
	}
	now := time.Now().UnixNano()
	at := record.Record{
		Done: true, Token: claim.Token, Fence: now / 1000, Attempt: 1, Fingerprint: claim.Fingerprint, Scope: claim.Scope,
		Gone: now + int64(24*time.Hour), WindowEnd: now + int64(24*time.Hour), Result: result,
	}
	return len(ibid.Digest{}) + len(at.Append(nil, digest(0)))
}

// heap returns the bytes in use after a full collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A record costs at most 1.4 times its payload: what indexes it stays small
// beside it, whatever the number of records makes of the tables' load.
func TestMemoryPerRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("measures the heap")
	}
	for _, n := range []int{30_000, 50_000, 70_000, 100_000} {
		before := heap()
		s := memstore.New(nil)
		payload := fill(t, s, n, 300)
		each := float64(heap()-before) / float64(n)
		runtime.KeepAlive(s)
		if ratio := each / float64(payload); ratio > 1.4 {
			t.Errorf("%d records cost %.0f bytes each, %.2f times their payload of %d", n, each, ratio, payload)
		}
	}
}

// BenchmarkMillion reports what a record costs at a million records, with a
// result of 300 bytes, and how long a full collection takes then.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		before := heap()
		s := memstore.New(nil)
		payload := fill(b, s, n, 300)
		each := float64(heap()-before) / n
		start := time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "gc-ms")
		b.ReportMetric(each, "bytes/record")
		b.ReportMetric(each/float64(payload), "ratio")
		b.ReportMetric(float64(payload), "payload")
		runtime.KeepAlive(s)
	}
}

// BenchmarkFirst is a Begin and a Complete of a new key.
func BenchmarkFirst(b *testing.B) {
	s := memstore.New(&memstore.Options{MaxRecords: -1})
	result := make([]byte, 300)
	claim := ibid.Claim{Fingerprint: ibid.Fingerprint{1}, Lease: 30 * time.Second, Window: 24 * time.Hour}
	ctx := context.Background()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		binary.LittleEndian.PutUint64(claim.Token[:], uint64(n)+1)
		if _, err := s.Begin(ctx, digest(n), claim); err != nil {
			b.Fatal(err)
		}
		if err := s.Complete(ctx, digest(n), claim.Token, result, ibid.Keep{Retain: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay is a Begin of a completed key, by many callers at once.
func BenchmarkReplay(b *testing.B) {
	s := memstore.New(nil)
	fill(b, s, 1000, 300)
	claim := ibid.Claim{Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint{1}, Lease: 30 * time.Second, Window: 24 * time.Hour}
	ctx := context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if r, err := s.Begin(ctx, digest(n%1000), claim); err != nil || r.State != ibid.Completed {
				b.Fatal(fmt.Sprint(r, err))
			}
		}
	})
}

// A replay allocates the copy of the result that it hands out, and nothing else.
func TestReplayAllocates(t *testing.T) {
	s := memstore.New(nil)
	fill(t, s, 1, 300)
	claim := ibid.Claim{Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint{1}, Lease: 30 * time.Second, Window: 24 * time.Hour}
	ctx := context.Background()
	n := testing.AllocsPerRun(100, func() {
		if r, err := s.Begin(ctx, digest(0), claim); err != nil || len(r.Result) != 300 {
			t.Fatal(r, err)
		}
	})
	if n > 1 {
		t.Errorf("a replay allocates %v times, want 1", n)
	}
}
