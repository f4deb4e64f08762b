package ibidhttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// Which answers are recorded, and which free the key.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		kept func(int, http.Header) bool
		free []int // of the statuses below
	}{
		{"default", nil, []int{401, 403, 408, 425, 429, 500, 502, 503, 504}},
		{"KeepAll", ibidhttp.KeepAll, nil},
		{"KeepSuccess", ibidhttp.KeepSuccess, []int{400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 502, 503, 504}},
		{"Stripe", ibidhttp.Stripe().Kept, []int{401, 403, 408, 425, 429}},
		{"a function", func(status int, h http.Header) bool { return h.Get("X-Final") == "1" }, []int{200, 201, 202, 204, 301, 304, 400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 502, 503, 504}},
	} {
		for _, status := range []int{200, 201, 202, 204, 301, 304, 400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 502, 503, 504} {
			t.Run(fmt.Sprintf("%s/%d", c.name, status), func(t *testing.T) {
				t.Parallel()
				s := serve(t, &ibidhttp.Options{Kept: c.kept}, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/plain")
					w.WriteHeader(status)
					io.WriteString(w, "answer")
				})
				free := false
				for _, f := range c.free {
					free = free || f == status
				}
				first, second := s.post("k", "{}"), s.post("k", "{}")
				if free {
					s.wantRuns(2)
					if first.Code != status || first.Header().Get("Idempotency-Expires") != "" {
						t.Errorf("first answer %d %v", first.Code, first.Header())
					}
					return
				}
				s.wantRuns(1)
				wantReplay(t, first, second)
			})
		}
	}
}

// A handler that says that its effect may have happened does not free its key.
func TestAFailureAfterTheEffectIsUnknown(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		ibid.EffectStarted(r.Context())
		w.Header().Set("X-Detail", "secret")
		http.Error(w, "no answer from the bank", http.StatusServiceUnavailable)
	})
	for range 2 {
		w := s.post("k", "{}")
		wantProblem(t, w, 409, ibidhttp.TypeUnknown)
		if w.Header().Get("Retry-After") != "" || w.Header().Get("X-Detail") != "" {
			t.Errorf("header %v", w.Header())
		}
	}
	s.wantRuns(1)
}

func TestEmptyAnswersAreAnswers(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"nothing at all":     func(http.ResponseWriter, *http.Request) {},
		"204":                func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"201 without body":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) },
		"empty write":        func(w http.ResponseWriter, _ *http.Request) { w.Write(nil) },
		"302":                func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/p/1", http.StatusFound) },
		"304 with validator": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("ETag", `"1"`); w.WriteHeader(304) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, h)
			wantReplay(t, s.post("k", "{}"), s.post("k", "{}"))
			s.wantRuns(1)
		})
	}
}

func TestHeadersThatAreKept(t *testing.T) {
	t.Parallel()
	set := func(w http.ResponseWriter) {
		for _, line := range []string{
			"Content-Type: application/json", "Content-Language: de", "Location: /p/1", "Etag: \"1\"", "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT",
			"Link: <a>; rel=next", "Link: <b>, <c>", "Retry-After: 7", "X-Custom: 1", "Vary: Accept-Language", "Cache-Control: private",
			"Set-Cookie: s=1", "Www-Authenticate: Basic", "Authentication-Info: x", "Access-Control-Allow-Origin: *", "Strict-Transport-Security: max-age=1",
			"Content-Security-Policy: default-src", "Alt-Svc: h3", "Server: x", "Via: 1.1 x", "X-Request-Id: 1", "Request-Id: 1", "Traceparent: 00", "Ratelimit-Remaining: 5",
			"Ratelimit: 5", "X-Ratelimit-Limit: 5", "Connection: X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Te: trailers", "Upgrade: h2c",
			"Date: Mon, 02 Jan 2006 15:04:05 GMT", "Idempotent-Replayed: false", "Idempotency-Expires: 1", "X-Empty: ",
		} {
			name, value, _ := strings.Cut(line, ": ")
			w.Header().Add(name, value)
		}
		w.WriteHeader(200)
	}
	kept := []string{"Content-Type", "Content-Language", "Location", "Etag", "Last-Modified", "Link", "Retry-After", "X-Custom", "Vary", "Cache-Control", "X-Empty"}
	for _, c := range []struct {
		name string
		opts *ibidhttp.Options
		kept []string
	}{
		{"default", nil, kept},
		{"Set-Cookie asked for", &ibidhttp.Options{KeepHeaders: []string{"set-cookie", "Access-Control-Allow-Origin"}}, append(kept[:len(kept):len(kept)], "Set-Cookie", "Access-Control-Allow-Origin")},
		{"some dropped", &ibidhttp.Options{DropHeaders: []string{"X-*", "etag"}}, []string{"Content-Type", "Content-Language", "Location", "Last-Modified", "Link", "Retry-After", "Vary", "Cache-Control"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.opts, func(w http.ResponseWriter, r *http.Request) { set(w) })
			first, replay := s.post("k", "{}").Header(), s.post("k", "{}").Header()
			bare := httptest.NewRecorder()
			set(bare)
			for name, values := range bare.Header() {
				if name == "Idempotent-Replayed" || name == "Idempotency-Expires" {
					continue
				}
				if !reflect.DeepEqual(first[name], values) {
					t.Errorf("first answer: %s: %q, the handler set %q", name, first[name], values)
				}
			}
			for _, name := range c.kept {
				if !reflect.DeepEqual(replay[name], bare.Header()[name]) {
					t.Errorf("replay: %s: %q, want %q", name, replay[name], bare.Header()[name])
				}
			}
			if n := len(replay) - len(c.kept); n != 2 {
				t.Errorf("replay has %d headers besides the kept ones, want the two markers: %v", n, replay)
			}
			if first.Get("Idempotent-Replayed") != "" || first.Get("Idempotency-Expires") == "1" {
				t.Errorf("the handler's markers reached the first answer: %v", first)
			}
		})
	}
}

func TestMarkersAreSettable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts    ibidhttp.Options
		replay  map[string]string
		without []string
	}{
		{ibidhttp.Options{}, map[string]string{"Idempotent-Replayed": "true", "Idempotency-Expires": "86400", "Cache-Control": "no-store"}, nil},
		{ibidhttp.Options{ReplayMarker: "x-replay", ExpiresHeader: "X-Seconds"}, map[string]string{"X-Replay": "true", "X-Seconds": "86400"}, []string{"Idempotent-Replayed", "Idempotency-Expires"}},
		{ibidhttp.Options{ReplayMarker: "-", ExpiresHeader: "-"}, nil, []string{"Idempotent-Replayed", "Idempotency-Expires", "-"}},
	} {
		s := serve(t, &c.opts, created())
		s.post("k", "{}")
		w := s.post("k", "{}")
		for name, value := range c.replay {
			if w.Header().Get(name) != value {
				t.Errorf("%s: %q, want %q", name, w.Header().Get(name), value)
			}
		}
		for _, name := range c.without {
			if _, ok := w.Header()[name]; ok {
				t.Errorf("%s is there", name)
			}
		}
	}
}

// What something in front set is made anew for each answer, and recorded for none.
func TestHeadersFromInFrontAreNotRecorded(t *testing.T) {
	t.Parallel()
	n := 0
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if len(w.Header()) > 0 {
			t.Errorf("the handler sees %v", w.Header())
		}
		w.Header().Set("Vary", "Accept-Language")
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("x"))
	})
	inner := s.handler
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("X-Front", strconv.Itoa(n))
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Content-Type", "application/octet-stream")
		inner.ServeHTTP(w, r)
	})
	first, replay := s.post("k", "{}"), s.post("k", "{}")
	wantReplay(t, first, replay, "X-Front")
	if replay.Header().Get("X-Front") != "2" {
		t.Errorf("X-Front %q, want that of this request", replay.Header().Get("X-Front"))
	}
	if v := replay.Header()["Vary"]; !reflect.DeepEqual(v, []string{"Origin", "Accept-Language"}) {
		t.Errorf("Vary %q", v)
	}
	if ct := first.Header()["Content-Type"]; !reflect.DeepEqual(ct, []string{"text/plain"}) {
		t.Errorf("Content-Type %q", ct)
	}
}

// The first answer is what was recorded: what a handler does to its header
// after the status, or to bytes it has written, counts in neither.
func TestTheFirstAnswerIsFrozenAtTheStatus(t *testing.T) {
	t.Parallel()
	for _, front := range []bool{false, true} {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["X-Index"] = []string{"before"}
			w.Header().Set("X-Set", "before")
			w.Header().Set("X-Deleted", "before")
			w.Header().Set("X-Added", "before")
			w.WriteHeader(201)
			w.Header()["X-Index"][0] = "after"
			w.Header().Set("X-Set", "after")
			w.Header().Add("X-Added", "after")
			w.Header().Del("X-Deleted")
			w.Header().Set("X-Late", "after")
			w.WriteHeader(500)
			b := []byte("body")
			w.Write(b)
			copy(b, "XXXX")
		})
		inner := s.handler
		s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if front {
				w.Header().Set("X-Front", "1")
			}
			inner.ServeHTTP(w, r)
		})
		first := s.post("k", "{}")
		wantReplay(t, first, s.post("k", "{}"))
		if first.Code != 201 || first.Body.String() != "body" || strings.Contains(fmt.Sprint(first.Header()), "after") || first.Header().Get("X-Deleted") == "" {
			t.Errorf("first answer %d %q %v", first.Code, first.Body, first.Header())
		}
	}
}

// A handler cannot put on the wire, now or on a replay, what is no header.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Split"] = []string{"a\r\nSet-Cookie: s=1", "  b\x00c  "}
		h["X Bad Name"] = []string{"1"}
		h["X-Bad:Name"] = []string{"1"}
		h[""] = []string{"1"}
		w.Write([]byte("x"))
	})
	first := s.post("k", "{}")
	wantReplay(t, first, s.post("k", "{}"))
	if got := first.Header()["X-Split"]; !reflect.DeepEqual(got, []string{"a  Set-Cookie: s=1", "b c"}) {
		t.Errorf("X-Split %q", got)
	}
	for name := range first.Header() {
		if name == "" || strings.ContainsAny(name, " :") {
			t.Errorf("header name %q", name)
		}
	}
}

func TestContentTypeIsSniffedOnceAndRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(http.Header)
		want string
	}{
		{"sniffed", func(http.Header) {}, "text/html; charset=utf-8"},
		{"set", func(h http.Header) { h.Set("Content-Type", "a/b") }, "a/b"},
		{"suppressed", func(h http.Header) { h["Content-Type"] = nil }, ""},
		{"encoded", func(h http.Header) { h.Set("Content-Encoding", "gzip") }, ""},
	} {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
			c.set(w.Header())
			io.WriteString(w, "<html><body>hello")
		})
		srv := httptest.NewServer(s.handler)
		for range 2 {
			r, _ := http.NewRequest("POST", srv.URL+"/payments", strings.NewReader("{}"))
			r.Header = request("k", "").Header
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get("Content-Type"); got != c.want {
				t.Errorf("%s: Content-Type %q, want %q", c.name, got, c.want)
			}
		}
		srv.Close()
		s.wantRuns(1)
	}
}

func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	const limit = 4096
	for _, c := range []struct {
		name   string
		size   int
		chunk  int
		length bool // the handler declares Content-Length
		opts   ibidhttp.Options
		kept   bool
	}{
		{"limit-1", limit - 1, 1000, false, ibidhttp.Options{MaxResult: limit}, true},
		{"limit", limit, 1000, true, ibidhttp.Options{MaxResult: limit}, true},
		{"limit+1", limit + 1, 1000, true, ibidhttp.Options{MaxResult: limit}, false},
		{"limit+1 at once", limit + 1, limit + 1, false, ibidhttp.Options{MaxResult: limit}, false},
		{"many times the limit", 50 * limit, 999, false, ibidhttp.Options{MaxResult: limit}, false},
		{"1 MiB by default", 1 << 20, 1 << 16, false, ibidhttp.Options{}, true},
		{"1 MiB and a byte by default", 1<<20 + 1, 1 << 16, false, ibidhttp.Options{}, false},
		{"no limit", 3 << 20, 1 << 16, false, ibidhttp.Options{MaxResult: -1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.opts.SpoolDir = t.TempDir()
			body := bytes.Repeat([]byte("0123456789"), c.size/10+1)[:c.size]
			s := serve(t, &c.opts, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/exports/1")
				w.Header().Set("X-Private", "p")
				if c.length {
					w.Header().Set("Content-Length", strconv.Itoa(c.size))
				}
				w.WriteHeader(201)
				for rest := body; len(rest) > 0; {
					n := min(c.chunk, len(rest))
					if _, err := w.Write(rest[:n]); err != nil {
						t.Errorf("write: %v", err)
					}
					rest = rest[n:]
				}
			})
			first := s.post("k", "{}")
			if first.Code != 201 || !bytes.Equal(first.Body.Bytes(), body) || first.Header().Get("X-Private") != "p" {
				t.Fatalf("the first caller got %d and %d bytes of %d", first.Code, first.Body.Len(), c.size)
			}
			if cl := first.Header().Get("Content-Length"); cl != strconv.Itoa(c.size) {
				t.Errorf("Content-Length %q", cl)
			}
			second := s.post("k", "{}")
			s.wantRuns(1)
			if c.kept {
				wantReplay(t, first, second)
			} else {
				wantProblem(t, second, 409, ibidhttp.TypeNotKept)
				if !strings.Contains(second.Body.String(), `"first_status":201,"first_location":"/exports/1"`) || second.Header().Get("Location") != "/exports/1" {
					t.Errorf("later callers do not learn status and Location: %s", second.Body)
				}
				if first.Header().Get("Idempotency-Expires") != "" {
					t.Error("the first answer says that it will be replayed")
				}
			}
			if left, _ := os.ReadDir(c.opts.SpoolDir); len(left) > 0 {
				t.Errorf("%d temporary files are left", len(left))
			}
		})
	}
}

// An answer that can neither be kept nor spooled is still recorded as done:
// its caller learns that, and nothing runs again.
func TestAnAnswerThatCannotBeSpooled(t *testing.T) {
	t.Parallel()
	var wrote error
	s := serve(t, &ibidhttp.Options{MaxResult: 10, SpoolDir: t.TempDir() + "/none"}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/p/1")
		w.WriteHeader(201)
		_, wrote = w.Write(make([]byte, 11))
	})
	for range 2 {
		w := s.post("k", "{}")
		wantProblem(t, w, 409, ibidhttp.TypeNotKept)
		if !strings.Contains(w.Body.String(), `"first_status":201`) {
			t.Errorf("%s", w.Body)
		}
	}
	s.wantRuns(1)
	if wrote == nil {
		t.Error("the handler was told that its write succeeded")
	}
}

// A store that takes no record of that size: the first caller gets everything.
func TestAnAnswerTooLargeForTheStore(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	s.store.Store = tooLarge{s.store.Store}
	if w := s.post("k", "{}"); w.Code != 201 || w.Body.Len() == 0 {
		t.Errorf("first: %d %q", w.Code, w.Body)
	}
	wantProblem(t, s.post("k", "{}"), 409, ibidhttp.TypeNotKept)
	s.wantRuns(1)
}
