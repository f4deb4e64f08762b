package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/redisstore"
	"github.com/ibid-go/ibid/redisstore/goredisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Rates are compared within one run: in each of five rounds the plain commands
// and the store take turns, and what is reported is the median of the rounds'
// quotients, with the lowest and the highest. What a round takes is fixed;
// -benchtime means nothing.
const (
	benchRounds = 5
	benchTurn   = 300 * time.Millisecond
)

// rate is how often op runs in a second, called by n at once.
func rate(n int, op func(worker int)) float64 {
	var done atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	end := began.Add(benchTurn)
	for w := range n {
		callers.Go(func() {
			mine := int64(0)
			for ; time.Now().Before(end); mine++ {
				op(w)
			}
			done.Add(mine)
		})
	}
	callers.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

func compare(b *testing.B, callers int, plain, subject func(worker int)) {
	var ratios, rates []float64
	for range benchRounds {
		p := rate(callers, plain)
		s := rate(callers, subject)
		ratios, rates = append(ratios, s/p), append(rates, s)
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rates[benchRounds/2], "per-s")
	b.ReportMetric(ratios[benchRounds/2], "ratio")
	b.ReportMetric(ratios[0], "lowest")
	b.ReportMetric(ratios[benchRounds-1], "highest")
}

// side is a store beside plain commands of the same client.
type side struct {
	name  string
	store ibid.Store
	set   func(key, value string)
	get   func(key string)
}

func sides(b *testing.B, server *redistest.Server) []side {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			b.Error(err)
		}
	}
	fast, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, DisableRetry: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(fast.Close)
	common := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 64})
	b.Cleanup(func() { common.Close() })
	s1, err := redisstore.New(fast, nil)
	must(err)
	s2, err := goredisstore.New(common, nil)
	must(err)
	return []side{
		{"rueidis", s1, func(key, value string) {
			must(fast.Do(ctx, fast.B().Set().Key(key).Value(value).PxMilliseconds(86400000).Build()).Error())
		}, func(key string) { must(fast.Do(ctx, fast.B().Get().Key(key).Build()).Error()) }},
		{"go-redis", s2, func(key, value string) {
			must(common.Set(ctx, key, value, 24*time.Hour).Err())
		}, func(key string) { must(common.Get(ctx, key).Err()) }},
	}
}

var (
	benchResult = strings.Repeat("r", 300)
	benchFirst  = strings.Repeat("v", 121) // as long as a claim
	benchSecond = strings.Repeat("v", 437) // as long as its record
	benchKeep   = ibid.Keep{Retain: long}
	benchCounts = []int{1, 16, 64, 256}
)

func firstRun(b *testing.B, s ibid.Store) func(int) {
	ctx := context.Background()
	result := []byte(benchResult)
	return func(int) {
		k, c := newKey(), newClaim()
		r, err := s.Begin(ctx, k, c)
		if err == nil && r.OwnedBy(c.Token) {
			err = s.Complete(ctx, k, c.Token, result, benchKeep)
		}
		if err != nil {
			b.Error(err)
		}
	}
}

// First runs, beside two SETs of the same sizes with the same client.
func BenchmarkFirstRun(b *testing.B) {
	server := redistest.Start(b)
	for _, sd := range sides(b, server) {
		for _, callers := range benchCounts {
			b.Run(fmt.Sprintf("%s/callers=%d", sd.name, callers), func(b *testing.B) {
				server.Do("FLUSHALL")
				compare(b, callers, func(int) {
					name := rawKey("plain:", newKey())
					sd.set(name, benchFirst)
					sd.set(name, benchSecond)
				}, firstRun(b, sd.store))
			})
		}
	}
}

// First runs with rueidis, beside two SETs on a connection per caller without
// any client library.
func BenchmarkFirstRunAgainstRaw(b *testing.B) {
	server := redistest.Start(b)
	sd := sides(b, server)[0]
	for _, callers := range []int{64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			server.Do("FLUSHALL")
			conns := make([]net.Conn, callers)
			readers := make([]*bufio.Reader, callers)
			for i := range conns {
				c, err := net.Dial("tcp", server.Addr)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				conns[i], readers[i] = c, bufio.NewReader(c)
			}
			compare(b, callers, func(w int) {
				name := rawKey("plain:", newKey())
				for _, value := range [...]string{benchFirst, benchSecond} {
					fmt.Fprintf(conns[w], "*5\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$2\r\nPX\r\n$8\r\n86400000\r\n", len(name), name, len(value), value)
					if _, err := io.ReadFull(readers[w], make([]byte, 5)); err != nil {
						b.Error(err)
					}
				}
			}, firstRun(b, sd.store))
		})
	}
}

// Replays, beside GET of values as long.
func BenchmarkReplay(b *testing.B) {
	server := redistest.Start(b)
	for _, sd := range sides(b, server) {
		keys := make([]ibid.Digest, 1000)
		names := make([]string, len(keys))
		for i := range keys {
			c := newClaim()
			keys[i] = newKey()
			mustOwn(b, sd.store, keys[i], c)
			complete(b, sd.store, keys[i], c, benchResult)
			names[i] = rawKey("plain:", keys[i])
			sd.set(names[i], benchSecond)
		}
		ctx := context.Background()
		var next atomic.Int64
		for _, callers := range benchCounts {
			b.Run(fmt.Sprintf("%s/callers=%d", sd.name, callers), func(b *testing.B) {
				compare(b, callers, func(int) {
					sd.get(names[next.Add(1)%1000])
				}, func(int) {
					if r, err := sd.store.Begin(ctx, keys[next.Add(1)%1000], newClaim()); err != nil || r.State != ibid.Completed {
						b.Errorf("%v, %v", r.State, err)
					}
				})
			})
		}
	}
}

// What a verb allocates in this process, by the library's goroutines too.
func TestAllocations(t *testing.T) {
	server := redistest.Start(t)
	for _, lib := range libraries {
		s := lib.open(t, "", server.Addr)
		ctx := context.Background()
		first := 40.0
		if lib.name == "go-redis" {
			first += 10 // it allocates twenty times to find that nil is worth no repetition
		}
		k, c := newKey(), newClaim()
		mustOwn(t, s, k, c)
		complete(t, s, k, c, benchResult)
		for _, row := range []struct {
			name string
			most float64
			op   func()
		}{
			{"a first run", first, func() {
				k, c := newKey(), newClaim()
				s.Begin(ctx, k, c)
				s.Complete(ctx, k, c.Token, []byte(benchResult), benchKeep)
			}},
			{"a replay", 25, func() { s.Begin(ctx, k, newClaim()) }},
		} {
			const times = 2000
			row.op()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				row.op()
			}
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs) / times
			t.Logf("%s: %s: %.1f allocations, %.0f bytes", lib.name, row.name, each, float64(after.TotalAlloc-before.TotalAlloc)/times)
			if each > row.most {
				t.Errorf("%s: %s: %.1f allocations, want at most %v", lib.name, row.name, each, row.most)
			}
		}
	}
}

// What a record takes at rest, by the server's own account.
func BenchmarkBytesAtRest(b *testing.B) {
	server := redistest.Start(b)
	s := sides(b, server)[0].store
	run := firstRun(b, s)
	before := server.Number("memory", "used_memory")
	const records = 1_000_000
	var left atomic.Int64
	left.Store(records)
	var callers sync.WaitGroup
	for w := range 256 {
		callers.Go(func() {
			for left.Add(-1) >= 0 {
				run(w)
			}
		})
	}
	callers.Wait()
	each := float64(server.Number("memory", "used_memory")-before) / records
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each, "B/record")
	payload := len(rawKey(redisstore.DefaultPrefix, newKey())) + len(benchSecond)
	b.ReportMetric(each/float64(payload), "of-payload")
}
