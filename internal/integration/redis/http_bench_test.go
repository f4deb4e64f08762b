package redis_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
)

// Whole requests over loopback at 64 callers: the middleware over Redis, beside
// the handler alone, and beside a handler that sends the plain commands itself.
func BenchmarkHTTP(b *testing.B) {
	server := redistest.Start(b)
	sd := sides(b, server)[0] // rueidis
	engine, err := ibid.New(context.Background(), sd.store, &ibid.Options{Secret: []byte("0123456789abcdef")})
	if err != nil {
		b.Fatal(err)
	}
	answer := []byte(benchResult)
	bare := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer)
	}
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		b.Cleanup(s.Close)
		return s.URL
	}
	alone := serve(bare)
	guarded := serve(ibidhttp.New(engine, ibidhttp.ByHeader("X-User-Id"), nil)(http.HandlerFunc(bare)).ServeHTTP)
	sets := serve(func(w http.ResponseWriter, r *http.Request) {
		name := rawKey("plain:", newKey())
		sd.set(name, benchFirst)
		sd.set(name, benchSecond)
		bare(w, r)
	})
	sd.set("plain:replayed", benchSecond)
	get := serve(func(w http.ResponseWriter, r *http.Request) {
		sd.get("plain:replayed")
		bare(w, r)
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	body := make([]byte, 200)
	var n atomic.Int64
	to := func(url string, key func() string) func(int) {
		return func(int) {
			req, _ := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
			req.Header.Set("Idempotency-Key", key())
			req.Header.Set("X-User-Id", "u-1")
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusCreated {
				b.Errorf("status %d", resp.StatusCode)
			}
		}
	}
	fresh := func() string { return "0e6c1f9a-" + strconv.FormatInt(n.Add(1), 10) }
	same := func() string { return "replayed" }
	to(guarded, same)(0)
	for _, way := range []struct {
		name           string
		plain, subject func(int)
	}{
		{"first/bare", to(alone, fresh), to(guarded, fresh)},
		{"first/two-SETs", to(sets, fresh), to(guarded, fresh)},
		{"replay/bare", to(alone, same), to(guarded, same)},
		{"replay/GET", to(get, same), to(guarded, same)},
	} {
		b.Run(way.name, func(b *testing.B) {
			compare(b, 64, way.plain, way.subject)
		})
	}
}
