package ibidhttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/memstore"
)

var (
	benchRequest = `{"order_id":"o-1","amount":3000,"currency":"TWD","note":"` + strings.Repeat("n", 142) + `"}`
	benchAnswer  = []byte(`{"payment_id":"p-1","status":"completed","note":"` + strings.Repeat("a", 249) + `"}`)
)

func benchHandler(w http.ResponseWriter, r *http.Request) {
	var buf [512]byte
	for {
		if _, err := r.Body.Read(buf[:]); err != nil {
			break
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/payments/p-1")
	w.WriteHeader(http.StatusCreated)
	w.Write(benchAnswer)
}

func benchEngine(tb testing.TB) *ibid.Engine {
	engine, err := ibid.New(context.Background(), memstore.New(nil), &ibid.Options{Secret: []byte("0123456789abcdef")})
	if err != nil {
		tb.Fatal(err)
	}
	return engine
}

func benchMiddleware(tb testing.TB) http.Handler {
	return ibidhttp.New(benchEngine(tb), ibidhttp.ByHeader("X-User-Id"), nil)(http.HandlerFunc(benchHandler))
}

// discard is a ResponseWriter that costs nothing.
type discard struct {
	header http.Header
	status int
	n      int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }

// benchCall is a request that can be sent again and again, with another key.
type benchCall struct {
	w    discard
	r    http.Request
	body strings.Reader
	keys []string
}

func newBenchCall(tb testing.TB) *benchCall {
	c := &benchCall{w: discard{header: http.Header{}}, keys: []string{""}}
	c.r = http.Request{
		Method: "POST", RequestURI: "/payments", URL: &url.URL{Path: "/payments"}, ContentLength: int64(len(benchRequest)),
		Header: http.Header{"Content-Type": {"application/json"}, "X-User-Id": {"u-1"}, "Idempotency-Key": c.keys},
		Body:   io.NopCloser(&c.body), Host: "localhost", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	// A server's requests have a context that ends when the caller hangs up.
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	c.r = *c.r.WithContext(ctx)
	return c
}

func (c *benchCall) do(h http.Handler, key string) {
	c.keys[0] = key
	c.body.Reset(benchRequest)
	clear(c.w.header)
	c.w.n = 0
	h.ServeHTTP(&c.w, &c.r)
}

// allocs returns the allocations of one call, the mean of n.
func allocs(n int, call func(i int)) float64 {
	call(0)
	runtime.GC()
	call(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		call(i + 1)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("5f0c1c5e-7a3c-4a59-9d0a-%012d", i)
	}
	return keys
}

// BenchmarkMiddlewareFirst reports what a first run costs above the bare handler.
func BenchmarkMiddlewareFirst(b *testing.B) { benchAllocs(b, false) }

// BenchmarkMiddlewareReplay reports what a replay costs above the bare handler.
func BenchmarkMiddlewareReplay(b *testing.B) { benchAllocs(b, true) }

func benchAllocs(b *testing.B, replay bool) {
	bare := http.HandlerFunc(benchHandler)
	guarded := benchMiddleware(b)
	c := newBenchCall(b)
	keys := benchKeys(2002)
	n := 2000
	base := allocs(n, func(i int) { c.do(bare, keys[i]) })
	own := allocs(n, func(i int) {
		if replay {
			i = 0
		}
		c.do(guarded, keys[i])
	})
	guarded = benchMiddleware(b)
	c.do(guarded, keys[0])
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		key := keys[0]
		if !replay {
			i++
			key = "5f0c1c5e-7a3c-4a59-9d0a-" + strconv.Itoa(1e12+i)
		}
		c.do(guarded, key)
	}
	b.ReportMetric(own-base, "allocs-above-bare")
}

// TestAllocationsStayWithinBudget: a first run may cost 12 above the bare
// handler, a replay 8. What the engine alone costs is logged beside them.
func TestAllocationsStayWithinBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	engine := benchEngine(t)
	bare, guarded := http.HandlerFunc(benchHandler), benchMiddleware(t)
	c := newBenchCall(t)
	keys := benchKeys(3002)
	print := engine.Fingerprint([]byte("print"))
	result := make([]byte, 400)
	work := func(context.Context) ([]byte, error) { return result, nil }
	policy := &ibid.Policy{Detach: true}
	do := func(i int) {
		call := ibid.Call{Key: ibid.Key{Scope: "u-1", ID: keys[i]}, Fingerprint: print, Policy: policy}
		if _, _, err := engine.Do(c.r.Context(), call, work); err != nil {
			t.Fatal(err)
		}
	}
	base := allocs(3000, func(i int) { c.do(bare, keys[i]) })
	engineFirst, engineReplay := allocs(3000, do), allocs(3000, do)
	first := allocs(3000, func(i int) { c.do(guarded, keys[i]) }) - base
	replay := allocs(3000, func(i int) { c.do(guarded, keys[i]) }) - base
	if c.w.status != 201 || c.w.n != len(benchAnswer) || c.w.header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("not a replay: %d, %d bytes, %v", c.w.status, c.w.n, c.w.header)
	}
	t.Logf("above the bare handler: first %.2f (engine %.2f), replay %.2f (engine %.2f)", first, engineFirst, replay, engineReplay)
	if first > 12 || replay > 8 {
		t.Errorf("above the bare handler: first %.2f (at most 12), replay %.2f (at most 8)", first, replay)
	}
}

// BenchmarkMiddlewareLoopback measures the rate over real loopback HTTP at 64
// callers: bare, first runs and replays in turn, many short rounds, so that what
// else the machine does falls on all of them. It reports the median ratios and the
// spread between the quartiles; the same of the processor time spent, which
// others on the machine disturb less.
func BenchmarkMiddlewareLoopback(b *testing.B) {
	const rounds, per = 25, 2560
	var id atomic.Int64
	next := func() string { return fmt.Sprintf("5f0c1c5e-7a3c-4a59-9d0a-%012d", id.Add(1)) }
	replayed := func() string { return "replayed" }
	bare, guarded := benchServer(b, http.HandlerFunc(benchHandler)), benchServer(b, benchMiddleware(b))
	client := benchClient(b)
	benchRate(b, client, guarded, per, replayed)
	benchRate(b, client, bare, per, next)
	var first, replay, firstCPU, replayCPU []float64
	for b.Loop() {
		for range rounds {
			x := benchRate(b, client, bare, per, next)
			f := benchRate(b, client, guarded, per, next)
			y := benchRate(b, client, bare, per, next)
			r := benchRate(b, client, guarded, per, replayed)
			z := benchRate(b, client, bare, per, next)
			first = append(first, f.wall/((x.wall+y.wall)/2))
			replay = append(replay, r.wall/((y.wall+z.wall)/2))
			firstCPU = append(firstCPU, f.cpu/((x.cpu+y.cpu)/2))
			replayCPU = append(replayCPU, r.cpu/((y.cpu+z.cpu)/2))
		}
	}
	for name, ratios := range map[string][]float64{"first": first, "replay": replay, "first-cpu": firstCPU, "replay-cpu": replayCPU} {
		slices.Sort(ratios)
		n := len(ratios)
		b.ReportMetric(ratios[n/2], name+"/bare")
		b.ReportMetric(ratios[n/4], name+"-p25")
		b.ReportMetric(ratios[3*n/4], name+"-p75")
	}
	b.ReportMetric(0, "ns/op")
}

func benchServer(b *testing.B, h http.Handler) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(l)
	b.Cleanup(func() { srv.Close() })
	return "http://" + l.Addr().String() + "/payments"
}

func benchClient(b *testing.B) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}
	b.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// rate is how many requests were answered per second: of the clock, and of
// processor time (0 where it cannot be read).
type rate struct{ wall, cpu float64 }

func benchRate(b *testing.B, client *http.Client, url string, n int, key func() string) rate {
	const callers = 64
	began, used := time.Now(), processorTime()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range n / callers {
				r, _ := http.NewRequest("POST", url, strings.NewReader(benchRequest))
				r.Header.Set("Idempotency-Key", key())
				r.Header.Set("X-User-Id", "u-1")
				r.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 201 && resp.StatusCode != 409 {
					b.Errorf("status %d", resp.StatusCode)
				}
			}
		})
	}
	wg.Wait()
	done := float64(n / callers * callers)
	return rate{done / time.Since(began).Seconds(), done / (processorTime() - used).Seconds()}
}
