package ibidclient_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// wire is a server that sees every request on the wire: it answers the first
// request of a connection, and resets the connection after having read a later one,
// for as long as it is told to.
type wire struct {
	net.Listener
	mu     sync.Mutex
	keys   []string // of every request that was read whole
	resets int      // requests still to be reset
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return w
}

func (w *wire) serve(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(c)
	for first := true; ; first = false {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		w.mu.Lock()
		w.keys = append(w.keys, req.Header.Get("Idempotency-Key"))
		reset := !first && w.resets > 0
		if reset {
			w.resets--
		}
		w.mu.Unlock()
		if reset {
			c.(*net.TCPConn).SetLinger(0)
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func (w *wire) url() string { return "http://" + w.Addr().String() }

// TestResends: a connection that was used before is reset after the server has
// read the request. What http.Transport then does by itself is prevented where
// there is a body, and counted where there is none (hazard 57).
func TestResends(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		attempts   int // made by the base transport's caller, as the events count them
	}{
		{"with a body: the base transport repeats nothing", "body", 2},
		{"without a body: it repeats, and is counted", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			var attempts, resent int
			var waits []time.Duration
			cl := client(base, &ibidclient.Options{Observe: []func(context.Context, ibidclient.Event){func(_ context.Context, e ibidclient.Event) {
				switch e.Kind {
				case ibidclient.EventAttempt:
					attempts++
				case ibidclient.EventResent:
					resent++
				case ibidclient.EventRetry:
					waits = append(waits, e.Wait)
				}
			}}})
			ask := func() (attempts int) {
				var body io.Reader
				if c.body != "" {
					body = strings.NewReader(c.body)
				}
				req, err := http.NewRequest("POST", w.url(), body)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := cl.Do(req)
				if got := read(t, resp, err); got != "ok" {
					t.Fatalf("answer %q", got)
				}
				return ibidclient.AttemptsOf(resp)
			}
			if n := ask(); n != 1 {
				t.Fatalf("AttemptsOf is %d, want 1", n)
			}
			w.mu.Lock()
			w.resets, w.keys = 1, nil
			w.mu.Unlock()
			attempts = 0
			got := ask()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.keys) != 2 || w.keys[0] == "" || w.keys[0] != w.keys[1] {
				t.Errorf("on the wire: keys %q, want the same twice", w.keys)
			}
			if got != len(w.keys) {
				t.Errorf("AttemptsOf is %d, on the wire were %d", got, len(w.keys))
			}
			if attempts != c.attempts || resent != 2-c.attempts {
				t.Errorf("%d attempts and %d resends, want %d and %d", attempts, resent, c.attempts, 2-c.attempts)
			}
			for _, wait := range waits {
				if wait != 0 {
					t.Errorf("waited %v for a connection that had been idle", wait)
				}
			}
		})
	}
}

// TestNoConnection: where nothing listens, nothing was executed.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	for _, body := range []string{"", "body"} {
		req, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client(&http.Transport{}, &ibidclient.Options{BaseDelay: -1}).Do(req)
		if e := failure(t, resp, err); e.Outcome != ibidclient.NotExecuted || e.Attempts != 0 || e.Key == "" {
			t.Error(e)
		}
	}
}

// TestHTTP2: the same over HTTP/2, where attempts share a connection.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := make(map[string]int) // key → requests
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		switch seen[key]++; {
		case r.ProtoMajor != 2:
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		case seen[key] == 1:
			panic(http.ErrAbortHandler) // the stream is reset
		case seen[key] == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Write(body)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c := client(server.Client().Transport, &ibidclient.Options{BaseDelay: time.Millisecond})
	for _, body := range []string{"body", ""} {
		resp, err := c.Post(server.URL, "text/plain", strings.NewReader(body))
		if got := read(t, resp, err); got != body || ibidclient.AttemptsOf(resp) != 3 {
			t.Errorf("%d %q after %d attempts", resp.StatusCode, got, ibidclient.AttemptsOf(resp))
		}
		mu.Lock()
		if n := seen[ibidclient.KeyOf(resp)]; n != 3 {
			t.Errorf("the server saw %d requests of the key", n)
		}
		mu.Unlock()
	}
}
