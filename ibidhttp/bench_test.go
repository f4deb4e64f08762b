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

// TestAllocationsStayWithinBudget: of the 12 and 8 that a first run and a replay
// may cost above the bare handler, 5 and 4 are the middleware's own.
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
	if first-engineFirst > 5 || replay-engineReplay > 4 {
		t.Errorf("the middleware's share: first %.2f (at most 5), replay %.2f (at most 4)", first-engineFirst, replay-engineReplay)
	}
}

// BenchmarkMiddlewareLoopback measures the rate over real loopback HTTP at 64
// callers: bare, first runs and replays in turn, several rounds, and reports the
// median ratios and their spread.
func BenchmarkMiddlewareLoopback(b *testing.B) {
	rounds, per := 7, 8000
	bare, guarded := http.HandlerFunc(benchHandler), benchMiddleware(b)
	var id atomic.Int64
	replayed := fmt.Sprintf("replayed-%d", 0)
	next := func() string { return fmt.Sprintf("5f0c1c5e-7a3c-4a59-9d0a-%012d", id.Add(1)) }
	var first, replay []float64
	bareURL, guardedURL := benchServer(b, bare), benchServer(b, guarded)
	client := benchClient(b)
	benchRate(b, client, guardedURL, 100, func() string { return replayed })
	for b.Loop() {
		for range rounds {
			x := benchRate(b, client, bareURL, per, next)
			f := benchRate(b, client, guardedURL, per, next)
			y := benchRate(b, client, bareURL, per, next)
			r := benchRate(b, client, guardedURL, per, func() string { return replayed })
			z := benchRate(b, client, bareURL, per, next)
			first = append(first, f/((x+y)/2))
			replay = append(replay, r/((y+z)/2))
		}
	}
	slices.Sort(first)
	slices.Sort(replay)
	b.ReportMetric(first[len(first)/2], "first/bare")
	b.ReportMetric(first[len(first)-1]-first[0], "first-spread")
	b.ReportMetric(replay[len(replay)/2], "replay/bare")
	b.ReportMetric(replay[len(replay)-1]-replay[0], "replay-spread")
	b.Logf("first %.3f, replay %.3f", first, replay)
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

func benchRate(b *testing.B, client *http.Client, url string, n int, key func() string) float64 {
	const callers = 64
	began := time.Now()
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
	return float64(n/callers*callers) / time.Since(began).Seconds()
}
