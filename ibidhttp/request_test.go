package ibidhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// What makes two requests the same. Every row sends the first, then the second
// with the same key.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	type print = ibidhttp.Fingerprint
	post := func(body string, lines ...string) func() *http.Request {
		return func() *http.Request { return request("k", body, lines...) }
	}
	to := func(target string) func() *http.Request {
		return func() *http.Request { return at(request("k", "{}"), "POST", target) }
	}
	const form = "multipart/form-data; boundary="
	parts := func(boundary, a, b, file string) func() *http.Request {
		return func() *http.Request {
			var body bytes.Buffer
			m := multipart.NewWriter(&body)
			if err := m.SetBoundary(boundary); err != nil {
				t.Fatal(err)
			}
			m.WriteField("a", a)
			m.WriteField("b", b)
			f, _ := m.CreateFormFile("f", "receipt.pdf")
			io.WriteString(f, file)
			m.Close()
			return request("k", body.String(), "Content-Type: "+form+boundary)
		}
	}
	for _, c := range []struct {
		name          string
		print         print
		first, second func() *http.Request
		status        int // of the second; 201 replays
	}{
		{"the same bytes", print{}, post(`{"a":1}`), post(`{"a":1}`), 201},
		{"other bytes", print{}, post(`{"a":1}`), post(`{"a":2}`), 422},
		{"white space counts in raw bytes", print{}, post(`{"a":1}`), post(`{"a": 1}`), 422},
		{"an empty body and none", print{}, post(``), post(``), 201},
		{"query", print{}, to("/payments?a=1"), to("/payments?a=2"), 422},
		{"query order", print{}, to("/payments?a=1&b=2"), to("/payments?b=2&a=1"), 422},
		{"same query", print{}, to("/payments?a=1"), to("/payments?a=1"), 201},
		{"escaped slash", print{}, to("/pay%2Fments"), to("/pay/ments"), 422},
		{"content type", print{}, post(`a`), post(`a`, "Content-Type: text/plain"), 422},
		{"content encoding", print{}, post(`a`), post(`a`, "Content-Encoding: gzip"), 422},
		{"other headers do not count", print{}, post(`a`, "User-Agent: x", "Traceparent: 1", "Authorization: a"), post(`a`, "User-Agent: y", "Traceparent: 2", "Authorization: b"), 201},
		{"chosen headers count", print{Headers: []string{"x-account"}}, post(`a`, "X-Account: 1"), post(`a`, "X-Account: 2"), 422},
		{"a chosen header that is absent", print{Headers: []string{"X-Account"}}, post(`a`), post(`a`, "X-Account: "), 422},
		{"canonical JSON: order", print{CanonicalJSON: true}, post(`{"a":1,"b":2}`), post(` {"b":2, "a":1}`), 201},
		{"canonical JSON: value", print{CanonicalJSON: true}, post(`{"a":1}`), post(`{"a":2}`), 422},
		{"canonical JSON: 19 digits", print{CanonicalJSON: true}, post(`{"a":1234567890123456789}`), post(`{"a":1234567890123456788}`), 422},
		{"canonical JSON: duplicate member", print{CanonicalJSON: true}, post(`{"a":1}`), post(`{"a":1,"a":1}`), 400},
		{"canonical JSON: bad UTF-8", print{CanonicalJSON: true}, post(`{"a":1}`), post("{\"a\":\"\xff\"}"), 400},
		{"canonical JSON: other content type is raw", print{CanonicalJSON: true}, post(`{"a":1}`, "Content-Type: text/plain"), post(`{"a": 1}`, "Content-Type: text/plain"), 422},
		{"canonical JSON: +json", print{CanonicalJSON: true}, post(`{"a":1}`, "Content-Type: application/merge-patch+json; x=y"), post(`{"a": 1}`, "Content-Type: application/merge-patch+json; x=y"), 201},
		{"canonical JSON: no body", print{CanonicalJSON: true}, post(``), post(``), 201},
		{"canonical JSON: no body and a raw one", print{CanonicalJSON: true}, post(``), post(`{}`), 422},
		{"exclude", print{Exclude: []string{"/ts"}}, post(`{"a":1,"ts":1}`), post(`{"a":1,"ts":2}`), 201},
		{"include", print{Include: []string{"/a"}}, post(`{"a":1,"ts":1}`), post(`{"a":1,"ts":2}`), 201},
		{"include differs", print{Include: []string{"/a"}}, post(`{"a":1,"ts":1}`), post(`{"a":2,"ts":1}`), 422},
		{"multipart: another boundary", print{Multipart: true}, parts("one", "1", "2", "pdf"), parts("two", "1", "2", "pdf"), 201},
		{"multipart: another value", print{Multipart: true}, parts("one", "1", "2", "pdf"), parts("two", "1", "3", "pdf"), 422},
		{"multipart: another file", print{Multipart: true}, parts("one", "1", "2", "pdf"), parts("two", "1", "2", "png"), 422},
		{"multipart: content moved between parts", print{Multipart: true}, parts("one", "12", "", "pdf"), parts("two", "1", "2", "pdf"), 422},
		{"multipart: raw by default", print{}, parts("one", "1", "2", "pdf"), parts("two", "1", "2", "pdf"), 422},
		{"multipart: cut short", print{Multipart: true}, parts("one", "1", "2", "pdf"), post("--two\r\n", "Content-Type: "+form+"two"), 400},
		{"multipart: no boundary", print{Multipart: true}, parts("one", "1", "2", "pdf"), post("x", "Content-Type: multipart/form-data"), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &ibidhttp.Options{Fingerprint: c.print, KeySpace: ibidhttp.KeyAlone}, created())
			first := s.do(c.first())
			if first.Code != 201 {
				t.Fatalf("first: %d %s", first.Code, first.Body)
			}
			second := s.do(c.second())
			switch c.status {
			case 201:
				wantReplay(t, first, second)
			case 422:
				wantProblem(t, second, 422, ibidhttp.TypeMismatch)
			case 400:
				wantProblem(t, second, 400, ibidhttp.TypeBodyInvalid)
			}
			s.wantRuns(1)
		})
	}
}

// Every part of the request is kept apart from its neighbours: moving bytes
// from one into the next is another request.
func FuzzFingerprint(f *testing.F) {
	f.Add("/a", "b", "", "application/json", "{}", "/a", "b", "", "application/json", "{}")
	f.Add("/a", "b=1", "x", "", "", "/a", "b=", "1x", "", "")
	f.Fuzz(func(t *testing.T, p1, q1, e1, c1, b1, p2, q2, e2, c2, b2 string) {
		s := serve(t, &ibidhttp.Options{KeySpace: ibidhttp.KeyAlone}, func(w http.ResponseWriter, r *http.Request) {})
		make := func(path, query, encoding, contentType, body string) *http.Request {
			r := request("k", body)
			r.RequestURI, r.URL.Path, r.URL.RawQuery = "", path, query
			r.Header["Content-Type"], r.Header["Content-Encoding"] = []string{contentType}, []string{encoding}
			return r
		}
		same := p1 == p2 && q1 == q2 && e1 == e2 && c1 == c2 && b1 == b2
		s.do(make(p1, q1, e1, c1, b1))
		w := s.do(make(p2, q2, e2, c2, b2))
		if same != (w.Code == 200) || same == (w.Code == 422) {
			t.Fatalf("status %d, same %v", w.Code, same)
		}
	})
}

func TestTheHandlerReadsTheWholeBody(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789", 30_000)
	for _, body := range []string{"", "x", big} {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength != int64(len(body)) || r.GetBody != nil || len(r.TransferEncoding) > 0 {
				t.Errorf("ContentLength %d of %d, GetBody %v, TransferEncoding %v", r.ContentLength, len(body), r.GetBody != nil, r.TransferEncoding)
			}
			got, err := io.ReadAll(r.Body)
			if string(got) != body || err != nil {
				t.Errorf("read %d bytes of %d, %v", len(got), len(body), err)
			}
			if err := r.Body.Close(); err != nil {
				t.Error(err)
			}
			if len(body) > 0 {
				if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
					t.Errorf("read after close: %v", err)
				}
			}
			if r.Trailer.Get("X-Sum") != "1" && r.Trailer != nil {
				t.Errorf("trailer %v", r.Trailer)
			}
		})
		srv := httptest.NewServer(s.handler)
		for _, chunked := range []bool{false, true} {
			r, _ := http.NewRequest("POST", srv.URL+"/payments", strings.NewReader(body))
			r.Header = request(fmt.Sprint("k", chunked), "").Header
			if chunked {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
				r.Trailer = http.Header{"X-Sum": {"1"}}
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		srv.Close()
		s.wantRuns(2)
	}
}

// A handler that changes its request changes nothing of the key, which was
// taken before.
func TestTheHandlerMayChangeItsRequest(t *testing.T) {
	t.Parallel()
	h := created()
	s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		for i := range b {
			b[i] = 'x'
		}
		r.Header.Set("Idempotency-Key", "other")
		r.Header.Set("Content-Type", "other")
		r.Method, r.URL.Path = "PUT", "/other"
		h(w, r)
	})
	first := s.post("k", `{"a":1}`)
	wantReplay(t, first, s.post("k", `{"a":1}`))
	s.wantRuns(1)
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		max     int64
		size    int
		chunked bool
		status  int
	}{
		{"at the limit", 1000, 1000, false, 201},
		{"above the limit", 1000, 1001, false, 413},
		{"at the limit, chunked", 1000, 1000, true, 201},
		{"above the limit, chunked", 1000, 1001, true, 413},
		{"1 MiB by default", 0, 1 << 20, true, 201},
		{"1 MiB and a byte by default", 0, 1<<20 + 1, true, 413},
		{"no limit", -1, 3 << 20, true, 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &ibidhttp.Options{MaxBody: c.max}, created())
			r := request("k", strings.Repeat("x", c.size))
			if c.chunked {
				r.ContentLength = -1
			}
			w := s.do(r)
			if c.status == 201 {
				if w.Code != 201 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				return
			}
			wantProblem(t, w, 413, ibidhttp.TypeBodyTooLarge)
			if w.Header().Get("Connection") != "close" {
				t.Error("the connection stays open with half a body on it")
			}
			s.wantRuns(0)
			if s.store.asked("begin") > 1 {
				t.Error("the store was asked")
			}
		})
	}
	t.Run("a limit from in front", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, created())
		r := request("k", "0123456789")
		r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 5)
		wantProblem(t, s.do(r), 413, ibidhttp.TypeBodyTooLarge)
	})
	t.Run("a body that cannot be read", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, created())
		r := request("k", "")
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{}))
		wantProblem(t, s.do(r), 400, ibidhttp.TypeBodyUnreadable)
		s.wantRuns(0)
		if w := s.post("k", "whole"); w.Code != 201 {
			t.Errorf("the retry: %d", w.Code)
		}
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// While a body trickles in, the key is free; a body that is cut off claims
// nothing.
func TestSlowAndBrokenUploads(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	srv := httptest.NewServer(s.handler)
	t.Cleanup(srv.Close)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "POST /payments HTTP/1.1\r\nHost: x\r\nX-User-Id: u-1\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range 5 {
		fmt.Fprint(conn, "1\r\n{\r\n")
	}
	time.Sleep(20 * time.Millisecond) // the server is most likely reading by now
	if n := s.store.asked("begin"); n > 1 {
		t.Errorf("the store was asked %d times while the body came in", n-1)
	}
	if w := s.post("k", "{}"); w.Code != 201 {
		t.Errorf("another request with the key: %d %s", w.Code, w.Body)
	}
	fmt.Fprint(conn, "zz\r\n") // no chunk
	answer, _ := io.ReadAll(conn)
	conn.Close()
	if !bytes.Contains(answer, []byte(ibidhttp.TypeBodyUnreadable)) {
		t.Errorf("%s", answer)
	}
	s.wantRuns(1)
}

// The caller hangs up at each point. The retry never runs the handler again
// once it has begun.
func TestTheCallerHangsUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   string
		runs int64 // after the retry
	}{
		{"in the header", 1},
		{"in the body", 1},
		{"while the handler runs", 1},
		{"while the result is recorded", 1},
		{"while the answer is sent", 1},
	} {
		t.Run(c.at, func(t *testing.T) {
			t.Parallel()
			entered, leave := make(chan struct{}), make(chan struct{})
			var seen error
			ended := make(chan struct{}, 2)
			s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if c.at == "while the handler runs" {
					close(entered)
					<-leave
					seen = r.Context().Err()
				}
				w.WriteHeader(201)
				io.WriteString(w, strings.Repeat("x", 1<<20))
			}, &ibid.Options{MaxResult: -1})
			recording := make(chan struct{})
			if c.at == "while the result is recorded" {
				var once bool
				s.store.set(nil, func(ctx context.Context) error {
					if !once {
						once = true
						close(recording)
						<-leave
					}
					return ctx.Err()
				})
			}
			inner := s.handler
			hungUp := make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { ended <- struct{}{} }()
				go func() { <-r.Context().Done(); close(hungUp) }()
				inner.ServeHTTP(w, r)
			}))
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			head := "POST /payments HTTP/1.1\r\nHost: x\r\nX-User-Id: u-1\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"
			switch c.at {
			case "in the header":
				fmt.Fprint(conn, head)
			case "in the body":
				fmt.Fprint(conn, head+"Content-Length: 2\r\n\r\n{")
			default:
				fmt.Fprint(conn, head+"Content-Length: 2\r\n\r\n{}")
			}
			switch c.at {
			case "while the handler runs":
				<-entered
			case "while the result is recorded":
				<-recording
			case "while the answer is sent":
				conn.Read(make([]byte, 100))
			}
			conn.Close()
			switch c.at {
			case "in the header":
			case "while the handler runs", "while the result is recorded":
				<-hungUp // the server has noticed
				close(leave)
				<-ended
			default:
				<-ended
			}
			if seen != nil {
				t.Errorf("the handler's context ended: %v", seen)
			}
			w := s.post("k", "{}")
			if w.Code != 201 || w.Body.Len() != 1<<20 {
				t.Errorf("retry: %d, %d bytes", w.Code, w.Body.Len())
			}
			s.wantRuns(c.runs)
			srv.Close()
		})
	}
}

// A caller that goes away before the claim claims nothing.
func TestACancelledRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantProblem(t, s.do(request("k", "{}").WithContext(ctx)), 503, ibidhttp.TypeCancelled)
	s.wantRuns(0)
}
