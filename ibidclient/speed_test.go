package ibidclient_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// still is a base transport that answers at once with the same response, and
// allocates what it needs for that.
type still struct{ header http.Header }

func (s *still) RoundTrip(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, struct{ io.Reader }{req.Body})
	req.Body.Close()
	return &http.Response{
		StatusCode: 200, Header: s.header, ContentLength: 300, Request: req,
		Body: io.NopCloser(strings.NewReader(answer300)),
	}, nil
}

var answer300 = strings.Repeat("a", 300)

// TestAllocations: what the transport adds to a request that succeeds at once
// and carries its key already.
func TestAllocations(t *testing.T) {
	base := &still{header: http.Header{"Content-Type": {"application/json"}}}
	measure := func(rt http.RoundTripper) float64 {
		body := bytes.NewReader(make([]byte, 200))
		req, err := http.NewRequest("POST", "http://shop.test/orders", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
		buf := make([]byte, 512)
		return testing.AllocsPerRun(1000, func() {
			body.Seek(0, io.SeekStart)
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = resp.Body.Read(buf)
			}
			resp.Body.Close()
		})
	}
	bare := measure(base)
	got := measure(&ibidclient.Transport{Options: ibidclient.Options{Base: base}})
	t.Logf("%.0f allocations, %.0f without ibidclient", got, bare)
	if got-bare > 8 {
		t.Errorf("%.0f allocations more than the base transport, want at most 8", got-bare)
	}
}

// BenchmarkRate compares the rate of 64 callers over loopback, with and without the
// transport, in slices of time that take turns: against a handler that does
// nothing, where every microsecond of either side shows, and against one that
// takes 5 ms. It reports the median of the ratios and how far they spread.
func BenchmarkRate(b *testing.B) {
	b.Run("empty", func(b *testing.B) { benchmarkRate(b, 0) })
	b.Run("5ms", func(b *testing.B) { benchmarkRate(b, 5*time.Millisecond) })
}

func benchmarkRate(b *testing.B, took time.Duration) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		time.Sleep(took)
		w.Write([]byte(answer300))
	}))
	defer server.Close()
	newBase := func() *http.Transport {
		return &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64}
	}
	bare := &http.Client{Transport: newBase()}
	with := ibidclient.New(&ibidclient.Options{Base: newBase()})
	body := make([]byte, 200)
	rate := func(c *http.Client, d time.Duration) float64 {
		var total int
		var mu sync.Mutex
		var wg sync.WaitGroup
		start := time.Now()
		for range 64 {
			wg.Go(func() {
				n := 0
				for time.Since(start) < d {
					req, err := http.NewRequestWithContext(b.Context(), "POST", server.URL, bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header.Set("Idempotency-Key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
					resp, err := c.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					n++
				}
				mu.Lock()
				total += n
				mu.Unlock()
			})
		}
		wg.Wait()
		return float64(total) / time.Since(start).Seconds()
	}
	const slice = 50 * time.Millisecond
	rate(bare, 4*slice)
	rate(with, 4*slice)
	var ratios, rates []float64
	for b.Loop() { // the order changes: what drifts meanwhile falls on both alike
		x := rate(bare, slice)
		y := rate(with, slice) + rate(with, slice)
		x += rate(bare, slice)
		ratios, rates = append(ratios, y/x), append(rates, x/2)
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(ratios[len(ratios)/4], "ratio-p25")
	b.ReportMetric(ratios[len(ratios)-1-len(ratios)/4], "ratio-p75")
	b.ReportMetric(rates[len(rates)/2], "bare/s")
}
