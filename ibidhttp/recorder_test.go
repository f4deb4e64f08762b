package ibidhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// wire is a service behind a real server, over HTTP/1.1 or HTTP/2.
type wire struct {
	*service
	srv    *httptest.Server
	client *http.Client
}

// overBoth runs check over HTTP/1.1 and over HTTP/2.
func overBoth(t *testing.T, opts *ibidhttp.Options, handle http.HandlerFunc, check func(t *testing.T, s *wire)) {
	for _, h2 := range []bool{false, true} {
		name := "HTTP1"
		if h2 {
			name = "HTTP2"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &wire{service: serve(t, opts, handle)}
			s.srv = httptest.NewUnstartedServer(s.handler)
			s.srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.srv.EnableHTTP2 = h2
			s.srv.StartTLS()
			t.Cleanup(s.srv.Close)
			s.client = s.srv.Client()
			check(t, s)
		})
	}
}

// reply is an answer as a client read it.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	trailer http.Header
	interim []string
	err     error // of the request, or of reading the body
}

func (s *wire) send(key string) reply {
	r, _ := http.NewRequest("POST", s.srv.URL+"/payments", strings.NewReader("{}"))
	r.Header.Set(user, "u-1")
	r.Header.Set("Idempotency-Key", key)
	var out reply
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			out.interim = append(out.interim, fmt.Sprint(code, " ", h.Get("Link")))
			return nil
		},
	}))
	resp, err := s.client.Do(r)
	if err != nil {
		out.err = err
		return out
	}
	defer resp.Body.Close()
	out.status, out.header = resp.StatusCode, resp.Header
	out.body, out.err = io.ReadAll(resp.Body)
	out.trailer = resp.Trailer
	return out
}

// wantSame checks that a replay on the wire is the first answer.
func wantSame(t *testing.T, first, replay reply) {
	t.Helper()
	if replay.err != nil || first.status != replay.status || !bytes.Equal(first.body, replay.body) || !reflect.DeepEqual(first.trailer, replay.trailer) {
		t.Errorf("replay %d %.80q %v %v, first %d %.80q %v", replay.status, replay.body, replay.trailer, replay.err, first.status, first.body, first.trailer)
	}
	if replay.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay without marker: %v", replay.header)
	}
	a, b := first.header.Clone(), replay.header.Clone()
	for _, name := range []string{"Idempotent-Replayed", "Idempotency-Expires", "Date"} {
		a.Del(name)
		b.Del(name)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("header of the replay %v, of the first answer %v", b, a)
	}
}

func TestAnswersOnTheWire(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 5000)
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		want   reply
	}{
		{"interim answers are passed and are never final", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(103)
			w.Header().Set("Link", "</other.css>; rel=preload")
			w.WriteHeader(103)
			w.Header().Del("Link")
			w.WriteHeader(201)
			io.WriteString(w, "done")
		}, reply{status: 201, body: []byte("done"), interim: []string{"103 </style.css>; rel=preload", "103 </other.css>; rel=preload"}}},
		{
			"an interim answer alone is a 200", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(102) },
			reply{status: 200, interim: []string{"102 "}},
		},
		{"declared trailers", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum, X-Unset")
			w.Header().Add("Trailer", "X-Twice")
			io.WriteString(w, "body")
			w.Header().Set("X-Sum", "1")
			w.Header()["X-Twice"] = []string{"a", "b"}
		}, reply{status: 200, body: []byte("body"), trailer: http.Header{"X-Sum": {"1"}, "X-Twice": {"a", "b"}}}},
		{"trailers by prefix", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "body")
			w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
		}, reply{status: 200, body: []byte("body"), trailer: http.Header{"X-Sum": {"1"}}}},
		{"trailers without a body", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(200)
			w.Header().Set("X-Sum", "1")
		}, reply{status: 200, trailer: http.Header{"X-Sum": {"1"}}}},
		{"trailers that would change the framing", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Content-Length, Transfer-Encoding, X-Sum")
			io.WriteString(w, "body")
			w.Header().Set("X-Sum", "1")
			w.Header().Set("Transfer-Encoding", "identity")
		}, reply{status: 200, body: []byte("body"), trailer: http.Header{"X-Sum": {"1"}}}},
		{"io.Copy does not go around the recorder", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			if _, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(big)); err != nil {
				panic(err)
			}
			io.Copy(w, strings.NewReader("end"))
		}, reply{status: 201, body: []byte(big + "end")}},
		{"a second status is ignored", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			w.WriteHeader(500)
			io.WriteString(w, "x")
		}, reply{status: 201, body: []byte("x")}},
		{"writing begins with 200", func(w http.ResponseWriter, r *http.Request) {
			w.(io.StringWriter).WriteString("x")
			w.WriteHeader(500)
		}, reply{status: 200, body: []byte("x")}},
		{"no body where there is none", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(204)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}, reply{status: 204}},
		{"a wrong Content-Length is made anew", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "four")
		}, reply{status: 200, body: []byte("four")}},
		{"flushing holds and is no error", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			w.Header().Set("X-Late", "1") // the header was frozen by the first byte
			io.WriteString(w, "b")
		}, reply{status: 200, body: []byte("ab")}},
		{"deadlines are those of the connection, hijacking is refused", func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			_, _, hijacked := c.Hijack()
			_, isPusher := w.(http.Pusher)
			_, unwraps := w.(interface{ Unwrap() http.ResponseWriter })
			errs := errors.Join(c.SetReadDeadline(time.Now().Add(time.Minute)), c.SetWriteDeadline(time.Now().Add(time.Minute)))
			duplex := c.EnableFullDuplex()
			if r.ProtoMajor == 2 && errors.Is(duplex, http.ErrNotSupported) {
				duplex = nil
			}
			fmt.Fprint(w, errors.Is(hijacked, http.ErrNotSupported), isPusher, unwraps, errs, duplex)
		}, reply{status: 200, body: []byte("true false false <nil> <nil>")}},
		{"switching protocols is not possible inside", func(w http.ResponseWriter, r *http.Request) {
			ibid.EffectStarted(context.Background()) // of no work: nothing happens
			w.WriteHeader(101)
		}, reply{status: 500}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, &ibidhttp.Options{Kept: ibidhttp.KeepAll}, c.handle, func(t *testing.T, s *wire) {
				first := s.send("k")
				if first.err != nil || first.status != c.want.status || !bytes.Equal(first.body, c.want.body) || !reflect.DeepEqual(first.interim, c.want.interim) {
					t.Errorf("first answer %d %.80q %q %v, want %d %.80q %q", first.status, first.body, first.interim, first.err, c.want.status, c.want.body, c.want.interim)
				}
				if c.want.trailer != nil && !reflect.DeepEqual(first.trailer, c.want.trailer) {
					t.Errorf("trailer %v, want %v", first.trailer, c.want.trailer)
				}
				second := s.send("k")
				if len(second.interim) > 0 {
					t.Errorf("interim answers were replayed: %q", second.interim)
				}
				wantSame(t, first, second)
				s.wantRuns(1)
			})
		})
	}
}

func TestHEADIsReplayedWithoutBody(t *testing.T) {
	t.Parallel()
	s := &wire{service: serve(t, &ibidhttp.Options{Methods: []string{"HEAD"}}, func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 5000))
	})}
	srv := httptest.NewServer(s.handler)
	t.Cleanup(srv.Close)
	for _, marker := range []string{"", "true"} {
		r, _ := http.NewRequest("HEAD", srv.URL, nil)
		r.Header.Set(user, "u-1")
		r.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ContentLength != 5000 || resp.Header.Get("Idempotent-Replayed") != marker {
			t.Errorf("Content-Length %d, header %v", resp.ContentLength, resp.Header)
		}
	}
	s.wantRuns(1)
}

// However a handler vanishes, its outcome is unknown, and the panic goes on as
// it would without the middleware.
func TestHandlersThatVanish(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		policy *ibid.Policy
		effect bool
		end    func()
		frees  bool
	}{
		{"panic", nil, false, func() { panic("boom") }, false},
		{"http.ErrAbortHandler", nil, false, func() { panic(http.ErrAbortHandler) }, false},
		{"runtime.Goexit", nil, false, runtime.Goexit, false},
		{"a status that is none", nil, false, nil, false},
		{"panic that releases", &ibid.Policy{ReleaseOnPanic: true}, false, func() { panic("boom") }, true},
		{"Goexit that releases", &ibid.Policy{ReleaseOnPanic: true}, false, runtime.Goexit, true},
		{"panic that would release, after the effect", &ibid.Policy{ReleaseOnPanic: true}, true, func() { panic("boom") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, &ibidhttp.Options{Policy: c.policy}, func(w http.ResponseWriter, r *http.Request) {
				if c.effect {
					ibid.EffectStarted(r.Context())
				}
				w.Header().Set("X-Detail", "secret")
				w.WriteHeader(201)
				io.WriteString(w, "secret")
				if c.end == nil {
					w.WriteHeader(42)
				}
				c.end()
			}, func(t *testing.T, s *wire) {
				if first := s.send("k"); first.err == nil && (c.name != "runtime.Goexit" && c.name != "Goexit that releases" || first.status == 201) {
					t.Errorf("first answer %d %q, want a broken connection", first.status, first.body)
				}
				if c.frees {
					s.send("k")
					s.wantRuns(2)
					return
				}
				r := s.send("k")
				if r.status != 409 || !bytes.Contains(r.body, []byte(ibidhttp.TypeUnknown)) || r.header.Get("X-Detail") != "" {
					t.Errorf("retry: %d %s", r.status, r.body)
				}
				s.wantRuns(1)
			})
		})
	}
	t.Run("the panic value goes on", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", "1"); panic("boom") })
		w := httptest.NewRecorder()
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
			if len(w.Header()) > 0 || w.Body.Len() > 0 {
				t.Errorf("left behind: %v %q", w.Header(), w.Body)
			}
		}()
		s.handler.ServeHTTP(w, request("k", "{}"))
	})
}

// A handler's goroutine that outlives it reaches neither the connection nor the
// buffers, which belong to other requests by then.
func TestWritingAndReadingAfterTheAnswer(t *testing.T) {
	t.Parallel()
	var late http.ResponseWriter
	var body io.Reader
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if late == nil {
			late, body = w, r.Body
		}
		io.WriteString(w, "answer of "+r.Header.Get("Idempotency-Key"))
	})
	s.post("k1", `{"secret":"of k1"}`)
	check := func() {
		if _, err := late.Write([]byte("late")); err == nil {
			t.Error("Write succeeded")
		}
		late.WriteHeader(500)
		if err := http.NewResponseController(late).Flush(); err == nil {
			t.Error("Flush succeeded")
		}
		if err := http.NewResponseController(late).SetWriteDeadline(time.Now()); err == nil {
			t.Error("SetWriteDeadline succeeded")
		}
		if n, err := body.Read(make([]byte, 100)); n > 0 || err == nil {
			t.Errorf("Read %d bytes, %v", n, err)
		}
	}
	check()
	for i := range 20 {
		key := fmt.Sprint("other", i)
		if w := s.post(key, "{}"); w.Body.String() != "answer of "+key {
			t.Errorf("%q", w.Body)
		}
		check()
	}
}

func TestStreamingRoutes(t *testing.T) {
	t.Parallel()
	step := map[int]chan struct{}{1: make(chan struct{}), 2: make(chan struct{})}
	overBoth(t, &ibidhttp.Options{Streaming: true}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Location", "/exports/1")
		w.WriteHeader(201)
		io.WriteString(w, "one ")
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush: %v", err)
		}
		<-step[r.ProtoMajor] // until the client has read what was flushed
		io.Copy(w, strings.NewReader("two"))
	}, func(t *testing.T, s *wire) {
		r, _ := http.NewRequest("POST", s.srv.URL+"/payments", strings.NewReader("{}"))
		r.Header.Set(user, "u-1")
		r.Header.Set("Idempotency-Key", "k")
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b := make([]byte, 4)
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "one " {
			t.Errorf("%q, %v", b, err)
		}
		if again := s.send("k"); again.status != 409 || !bytes.Contains(again.body, []byte(ibidhttp.TypeInProgress)) {
			t.Errorf("while it streams: %d %s", again.status, again.body)
		}
		step[resp.ProtoMajor] <- struct{}{}
		rest, _ := io.ReadAll(resp.Body)
		if string(rest) != "two" {
			t.Errorf("%q", rest)
		}
		again := s.send("k")
		if again.status != 409 || !bytes.Contains(again.body, []byte(`"first_status":201,"first_location":"/exports/1"`)) {
			t.Errorf("%d %s", again.status, again.body)
		}
		s.wantRuns(1)
	})
}

func TestStreamingRoutesThatFail(t *testing.T) {
	t.Parallel()
	s := serve(t, &ibidhttp.Options{Streaming: true}, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "later", http.StatusServiceUnavailable)
	})
	for range 2 {
		if w := s.post("k", "{}"); w.Code != 503 || w.Body.String() != "later\n" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
	s.wantRuns(2)
	empty := serve(t, &ibidhttp.Options{Streaming: true}, func(http.ResponseWriter, *http.Request) {})
	if w := empty.post("k", "{}"); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
	wantProblem(t, empty.post("k", "{}"), 409, ibidhttp.TypeNotKept)
}
