package ibidclient_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidclient"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/memstore"
)

// TestProblemTypes: every problem type that the server's half has is
// understood here.
func TestProblemTypes(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../ibidhttp/problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Type") || len(spec.Values) != 1 {
			return true
		}
		sum, ok := spec.Values[0].(*ast.BinaryExpr) // typeBase + "in-progress"
		if !ok {
			return true
		}
		name, err := strconv.Unquote(sum.Y.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if e := problem(418, name, "").failed(t); e.Type != name {
			t.Errorf("%s is not understood", name)
		}
		return true
	})
	if n < 10 || !strings.HasPrefix(ibidhttp.TypeInProgress, "https://ibid-go.github.io/problems/") {
		t.Errorf("%d types in %s", n, ibidhttp.TypeInProgress)
	}
}

// shop is the server's half around a handler that counts its runs.
func shop(t *testing.T, policy ibid.Policy, handler http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	engine, err := ibid.New(t.Context(), &memstore.Store{}, &ibid.Options{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	guarded := ibidhttp.New(engine, ibidhttp.SharedByAll, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		handler(w, r)
	}))
	server := httptest.NewServer(guarded)
	t.Cleanup(server.Close)
	return server, &runs
}

// TestAgainstIbid: the two halves together.
func TestAgainstIbid(t *testing.T) {
	t.Parallel()
	server, runs := shop(t, ibid.Policy{RetryAfter: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(string(body), "slow") {
			time.Sleep(100 * time.Millisecond)
		}
		if strings.HasPrefix(string(body), "panic") {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "done: "+string(body))
	})
	for name, opts := range map[string]*ibidclient.Options{"defaults": nil, "IETF": ibidclient.IETF()} {
		c := client(&http.Transport{}, opts)
		send := func(key, body string) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ibidclient.WithKey(t.Context(), name+key), "POST", server.URL+"/orders", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			return c.Do(req)
		}
		runs.Store(0)
		resp, err := send("a", "1")
		if got := read(t, resp, err); got != "done: 1" || ibidclient.Replayed(resp) {
			t.Errorf("%s: %q, replayed %v", name, got, ibidclient.Replayed(resp))
		}
		resp, err = send("a", "1")
		if got := read(t, resp, err); got != "done: 1" || !ibidclient.Replayed(resp) || runs.Load() != 1 {
			t.Errorf("%s: %q, replayed %v, %d runs", name, got, ibidclient.Replayed(resp), runs.Load())
		}
		resp, err = send("a", "2")
		if e := failure(t, resp, err); e.Outcome != ibidclient.Refused || !errors.Is(e, ibid.ErrMismatch) {
			t.Errorf("%s: another body: %v", name, e)
		}
		var wg sync.WaitGroup
		for range 2 { // one of them is told to wait a second
			wg.Go(func() {
				resp, err := send("b", "slow")
				if got := read(t, resp, err); got != "done: slow" {
					t.Errorf("%s: at the same time: %q", name, got)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 2 {
			t.Errorf("%s: %d runs, want 2", name, runs.Load())
		}
		resp, err = send(` we"ird; key, with \ `[1:15], "3") // is quoted
		if got := read(t, resp, err); got != "done: 3" {
			t.Errorf("%s: an odd key: %q", name, got)
		}
		runs.Add(-1)
		resp, err = send("c", "panic")
		if e := failure(t, resp, err); e.Outcome != ibidclient.Unknown || !errors.Is(e, ibid.ErrUnknown) || e.Attempts != 2 || runs.Load() != 3 {
			t.Errorf("%s: a vanished handler: %v, %d runs", name, e, runs.Load())
		}
	}
}

// TestServerWindow: the server's own word on its window reaches the caller.
func TestServerWindow(t *testing.T) {
	t.Parallel()
	server, _ := shop(t, ibid.Policy{Retain: 10 * time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
	})
	req, err := http.NewRequestWithContext(context.Background(), "POST", server.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client(&http.Transport{}, nil).Do(req)
	if e := failure(t, resp, err); e.Window < 9*time.Minute || e.Window > 10*time.Minute || e.Outcome != ibidclient.Refused {
		t.Errorf("%v, window %v, want the server's 10 minutes less a margin", e, e.Window)
	}
}
