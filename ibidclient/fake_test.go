package ibidclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

var errCut = errors.New("connection reset by peer")

// step is what a fake server does with one attempt: it reads the body, takes
// its time, and answers or fails.
type step struct {
	status int
	header string // "Name: value" per line
	body   string
	took   time.Duration
	err    error // instead of an answer
	unsent bool  // the body is not even read
}

// seen is one attempt as the fake server saw it.
type seen struct {
	method, url, body string
	header            http.Header
	at                time.Time
	length            int64
	rewindable        bool
}

// fake is a base transport that answers by a script; its last step repeats.
type fake struct {
	steps []step

	mu    sync.Mutex
	saw   []seen
	extra func(n int, req *http.Request) *step // overrides the script where it returns a step
}

func script(steps ...step) *fake { return &fake{steps: steps} }

func (f *fake) RoundTrip(req *http.Request) (*http.Response, error) {
	s := seen{method: req.Method, url: req.URL.String(), header: req.Header.Clone(), at: time.Now(), length: req.ContentLength, rewindable: req.GetBody != nil}
	f.mu.Lock()
	n := len(f.saw)
	st := f.steps[min(n, len(f.steps)-1)]
	if f.extra != nil {
		if over := f.extra(n, req); over != nil {
			st = *over
		}
	}
	f.saw = append(f.saw, s)
	f.mu.Unlock()
	if req.Body != nil && !st.unsent {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.saw[n].body = string(b)
		f.mu.Unlock()
	}
	if req.Body != nil {
		req.Body.Close()
	}
	if st.took > 0 {
		select {
		case <-time.After(st.took):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	if st.err != nil {
		return nil, st.err
	}
	return st.response(req), nil
}

func (s step) response(req *http.Request) *http.Response {
	resp := &http.Response{
		StatusCode: s.status, Status: fmt.Sprint(s.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Request: req, ContentLength: int64(len(s.body)),
		Body: io.NopCloser(strings.NewReader(s.body)),
	}
	for line := range strings.Lines(s.header) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			resp.Header.Add(name, value)
		}
	}
	return resp
}

func (f *fake) attempts() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.saw...)
}

// keys returns the key of every attempt.
func (f *fake) keys() []string {
	var keys []string
	for _, s := range f.attempts() {
		keys = append(keys, s.header.Get("Idempotency-Key"))
	}
	return keys
}

// client returns a client over base with opts; nil is the default.
func client(base http.RoundTripper, opts *ibidclient.Options) *http.Client {
	var o ibidclient.Options
	if opts != nil {
		o = *opts
	}
	o.Base = base
	return ibidclient.New(&o)
}

func post(t *testing.T, ctx context.Context, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shop.test/orders", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// failure returns the *Error of a call, or fails the test.
func failure(t *testing.T, resp *http.Response, err error) *ibidclient.Error {
	t.Helper()
	var e *ibidclient.Error
	if !errors.As(ibidclient.Check(resp, err), &e) {
		t.Fatalf("no *ibidclient.Error: response %v, error %v", resp, err)
	}
	if resp != nil {
		resp.Body.Close()
	}
	return e
}

// fail makes a call that must fail, and returns its *Error.
func fail(t *testing.T, c *http.Client, req *http.Request) *ibidclient.Error {
	t.Helper()
	resp, err := c.Do(req)
	if resp != nil {
		defer resp.Body.Close()
	}
	return failure(t, resp, err)
}

// failed is the *Error of a response that no Transport has seen.
func (s step) failed(t *testing.T) *ibidclient.Error {
	t.Helper()
	resp := s.response(post(t, t.Context(), ""))
	defer resp.Body.Close()
	return failure(t, resp, nil)
}

// read returns the body of an answer and closes it.
func read(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return string(b)
}

// problem returns a step that answers with a problem type of ibid.
func problem(status int, name, header string) step {
	return step{
		status: status, header: "Content-Type: application/problem+json\n" + header,
		body: `{"type":"https://ibid-go.github.io/problems/` + name + `","title":"x"}`,
	}
}
