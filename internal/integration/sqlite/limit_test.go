package sqlite

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkSQLiteLimit compares first runs with the least that makes as many bytes
// durable, a file that is appended to and whose callers share each fdatasync:
// twice for each run, as a claim is durable before its work begins. With one caller it
// compares the default with MaxBatch 1, to show that sharing costs a lone
// caller nothing. Each iteration is a round of both.
//
//	go test -run '^$' -bench SQLiteLimit -benchtime 9x ./sqlite
func BenchmarkSQLiteLimit(b *testing.B) {
	b.Run("log/callers=64", func(b *testing.B) {
		s, l := openBench(b, 0), newRawLog(b)
		firstRuns(b, s, 500)
		compare(b, func() float64 { return firstRuns(b, s, 5000) }, func() float64 { return l.runs(b, 64, 20000) })
	})
	b.Run("single/callers=1", func(b *testing.B) {
		shared, single := openBench(b, 0), openBench(b, 1)
		alone := func(open func() error) float64 {
			const n = 400
			start := time.Now()
			for range n {
				if err := open(); err != nil {
					b.Fatal(err)
				}
			}
			return n / time.Since(start).Seconds()
		}
		result := make([]byte, 300)
		compare(b, func() float64 { return alone(func() error { return firstRun(shared, result) }) },
			func() float64 { return alone(func() error { return firstRun(single, result) }) })
	})
}

func compare(b *testing.B, subject, limit func() float64) {
	var ratios []float64
	for b.Loop() {
		l := limit()
		ratios = append(ratios, subject()/l)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(slices.Min(ratios), "lowest")
	b.ReportMetric(slices.Max(ratios), "highest")
}

// rawLog is a file whose appends are durable when they return.
type rawLog struct {
	file *os.File

	mu      sync.Mutex
	waiting []chan error // whom the next fdatasync makes durable
	pending []byte       // what they appended
	syncing bool
}

func newRawLog(b *testing.B) *rawLog {
	f, err := os.Create(filepath.Join(tempDir(b), "log"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return &rawLog{file: f}
}

// runs appends a claim and a result n times from so many callers, and returns
// how many it did per second.
func (l *rawLog) runs(b *testing.B, callers, n int) float64 {
	var all sync.WaitGroup
	claim, result := make([]byte, 150), make([]byte, 450)
	start := time.Now()
	for range callers {
		all.Go(func() {
			for range n / callers {
				if err := l.append(claim); err != nil {
					b.Error(err)
				}
				if err := l.append(result); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(start).Seconds()
}

// append adds p. The first caller that finds nobody syncing writes for all that wait.
func (l *rawLog) append(p []byte) error {
	l.mu.Lock()
	mine := make(chan error, 1)
	l.pending, l.waiting = append(l.pending, p...), append(l.waiting, mine)
	if l.syncing {
		l.mu.Unlock()
		return <-mine
	}
	l.syncing = true
	for len(l.waiting) > 0 {
		bytes, waiting := l.pending, l.waiting
		l.pending, l.waiting = nil, nil
		l.mu.Unlock()
		_, err := l.file.Write(bytes)
		if err == nil {
			err = syncData(l.file)
		}
		for _, w := range waiting {
			w <- err
		}
		l.mu.Lock()
	}
	l.syncing = false
	l.mu.Unlock()
	return <-mine
}
