package ibidhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/ibidhttp"
)

// Something in front has read the body, a form's fields say: without it two
// requests would look the same, and the second get the first one's answer.
func TestBodyThatWasReadInFrontIsRefused(t *testing.T) {
	t.Parallel()
	form := func(body string) *http.Request {
		r := request("k", body, "Content-Type: application/x-www-form-urlencoded")
		return r
	}
	chunked := func(body string) *http.Request {
		r := form(body)
		r.ContentLength = -1
		return r
	}
	var parts bytes.Buffer
	m := multipart.NewWriter(&parts)
	m.WriteField("amount", "3000")
	m.Close()
	for _, tc := range []struct {
		name  string
		r     *http.Request
		front func(*http.Request)
		ok    bool
	}{
		{"ParseForm", form("amount=3000"), func(r *http.Request) { r.ParseForm() }, false},
		{"ParseForm of a body of unknown length", chunked("amount=3000"), func(r *http.Request) { r.ParseForm() }, false},
		{"ParseMultipartForm", request("k", parts.String(), "Content-Type: "+m.FormDataContentType()), func(r *http.Request) { r.ParseMultipartForm(1 << 20) }, false},
		{"io.ReadAll", form("amount=3000"), func(r *http.Request) { io.Copy(io.Discard, r.Body) }, false},
		{"the query only", form("amount=3000"), func(r *http.Request) { _ = r.URL.Query() }, true},
		{"a form without fields", form(""), func(r *http.Request) { r.ParseForm() }, true},
		{"read, and put back", form("amount=3000"), func(r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(b))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, created())
			tc.front(tc.r)
			w := s.do(tc.r)
			if tc.ok {
				s.wantRuns(1)
				return
			}
			wantProblem(t, w, 500, ibidhttp.TypeMisconfigured)
			s.wantRuns(0)
		})
	}
}

// net/http deletes the temporary files of a form with the request it made,
// which is not the one that a guarded handler parses.
func TestFormsLeaveNoFilesBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, panics := range []bool{false, true} {
		s := serve(t, &ibidhttp.Options{MaxBody: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1); err != nil {
				t.Error(err)
			}
			f, _, err := r.FormFile("file")
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if files, _ := os.ReadDir(dir); len(files) == 0 {
				t.Error("the form is not in a file: the test shows nothing")
			}
			if panics {
				panic("after parsing")
			}
		})
		var body bytes.Buffer
		m := multipart.NewWriter(&body)
		part, _ := m.CreateFormFile("file", "upload")
		part.Write(bytes.Repeat([]byte("x"), 11<<20/16))
		m.Close()
		func() {
			defer func() { recover() }()
			s.do(request("k", body.String(), "Content-Type: "+m.FormDataContentType()))
		}()
		s.wantRuns(1)
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("%d files stay, such as %s", len(files), files[0].Name())
	}
}

// A guarded handler in a mux finds its path values, and the mux around it too.
func TestPathValues(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("id"), " ", r.Pattern) })
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", s.handler)
	for _, id := range []string{"7", "8"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, at(request("k", "{}"), "POST", "/orders/"+id+"/pay"))
		if got := w.Body.String(); got != id+" POST /orders/{id}/pay" {
			t.Errorf("the handler saw %q", got)
		}
	}
}

// What a handler holds on to after it has returned reaches neither the next
// request's bytes nor its connection.
func TestWhatAHandlerKeepsReachesNoOtherRequest(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	type held struct {
		body io.Reader
		w    http.ResponseWriter
	}
	running := map[string]held{} // key → what its handler was given
	var kept []held              // of handlers that have returned
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		running[r.Header.Get("Idempotency-Key")] = held{r.Body, w}
		fmt.Fprint(w, "answer to "+r.Header.Get("Idempotency-Key"))
	})
	stop := make(chan struct{})
	var misuse, use sync.WaitGroup
	misuse.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			returned := kept
			mu.Unlock()
			for _, h := range returned {
				if b, err := io.ReadAll(h.body); err == nil && len(b) > 0 {
					t.Errorf("a body was read after its handler had returned: %q", b)
				}
				if _, err := h.w.Write([]byte("intruder")); err == nil {
					t.Error("a handler wrote after it had returned")
				}
			}
		}
	})
	for i := range 4 {
		use.Go(func() {
			for j := range 50 {
				key := fmt.Sprintf("k-%d-%d", i, j)
				for range 2 {
					if w := s.post(key, `{"key":"`+key+`"}`); w.Body.String() != "answer to "+key {
						t.Errorf("%s was answered %q", key, w.Body)
					}
				}
				mu.Lock()
				kept = append(kept, running[key])
				mu.Unlock()
			}
		})
	}
	use.Wait()
	close(stop)
	misuse.Wait()
}

// http.TimeoutHandler around the guard answers 503 while the handler goes on;
// the retry gets what it answered.
func TestTimeoutHandlerAround(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Second)
			if err := r.Context().Err(); err != nil {
				t.Errorf("the handler was cancelled: %v", err)
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "paid")
		})
		w := httptest.NewRecorder()
		http.TimeoutHandler(s.handler, time.Second, "too slow").ServeHTTP(w, request("k", "{}"))
		if w.Code != http.StatusServiceUnavailable {
			t.Fatalf("status %d", w.Code)
		}
		time.Sleep(2 * time.Second)
		if w := s.post("k", "{}"); w.Code != http.StatusCreated || w.Body.String() != "paid" || w.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("the retry got %d %q", w.Code, w.Body)
		}
		s.wantRuns(1)
	})
}

// Requests that a client pipelines, waits with (Expect), breaks off or lets trickle
// get their own answers, and claim nothing that they did not finish sending.
func TestRawConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, &ibidhttp.Options{Required: true}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s=%s", r.Header.Get("Idempotency-Key"), b)
	})
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(10 * time.Second))
		return c, bufio.NewReader(c)
	}
	head := func(key string, lines ...string) string {
		h := "POST /p HTTP/1.1\r\nHost: h\r\nX-User-Id: u\r\n"
		if key != "" {
			h += "Idempotency-Key: " + key + "\r\n"
		}
		return h + strings.Join(append(lines, "\r\n"), "\r\n")
	}
	answer := func(r *bufio.Reader) (int, string) {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}

	c, r := dial()
	var pipeline string
	for _, k := range []string{"a", "b", "a", "c"} {
		pipeline += head(k, "Content-Length: 2") + k + k
	}
	io.WriteString(c, pipeline)
	for _, k := range []string{"a", "b", "a", "c"} {
		if status, b := answer(r); status != 200 || b != k+"="+k+k {
			t.Errorf("pipelined %s: %d %q", k, status, b)
		}
	}
	s.wantRuns(3)

	c, r = dial() // no key: refused before the body was asked for
	io.WriteString(c, head("", "Content-Length: 2", "Expect: 100-continue"))
	if status, _ := answer(r); status != 400 {
		t.Errorf("Expect without a key: %d", status)
	}
	c, r = dial()
	io.WriteString(c, head("d", "Content-Length: 2", "Expect: 100-continue"))
	if status, _ := answer(r); status != 100 {
		t.Errorf("Expect: %d", status)
	}
	io.WriteString(c, "dd")
	if status, b := answer(r); status != 200 || b != "d=dd" {
		t.Errorf("after 100: %d %q", status, b)
	}
	s.wantRuns(4)

	for _, broken := range []string{
		head("e", "Content-Length: 9") + "half",
		head("e", "Transfer-Encoding: chunked") + "4\r\nhalf\r\n",
		head("e", "Transfer-Encoding: chunked") + "zz\r\n",
	} {
		c, r = dial()
		io.WriteString(c, broken)
		c.(*net.TCPConn).CloseWrite()
		if status, _ := answer(r); status != 400 {
			t.Errorf("%q: %d", broken, status)
		}
	}
	s.wantRuns(4)
	if n := s.store.asked("begin"); n != 6 { // the check record, a, b, a, c, d
		t.Errorf("%d claims were asked for", n)
	}

	c, r = dial() // a trickle holds no claim
	io.WriteString(c, head("f", "Content-Length: 4"))
	io.WriteString(c, "f")
	c2, r2 := dial()
	io.WriteString(c2, head("f", "Content-Length: 4")+"ffff")
	if status, b := answer(r2); status != 200 || b != "f=ffff" {
		t.Errorf("beside a trickle: %d %q", status, b)
	}
	io.WriteString(c, "fff")
	if status, b := answer(r); status != 200 || b != "f=ffff" {
		t.Errorf("after a trickle: %d %q", status, b)
	}
	s.wantRuns(5)
}

// A caller that breaks off while its answer is sent loses its connection and nothing else.
func TestCallerGoneWhileTheAnswerIsSent(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 1 << 20, 3 << 20} {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, size)) })
		s.do(request("k", "{}"))
		gone := &goneWriter{ResponseWriter: httptest.NewRecorder()}
		func() {
			defer func() {
				if err, _ := recover().(error); err != nil && !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("panic: %v", err)
				}
			}()
			s.handler.ServeHTTP(gone, request("k", "{}"))
		}()
		s.wantRuns(1)
		if w := s.post("k", "{}"); size <= 1<<20 && w.Body.Len() != size {
			t.Errorf("the next replay has %d bytes, want %d", w.Body.Len(), size)
		}
	}
}

type goneWriter struct{ http.ResponseWriter }

func (goneWriter) Write([]byte) (int, error) { return 0, context.Canceled }
