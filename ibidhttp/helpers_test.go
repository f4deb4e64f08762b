package ibidhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/memstore"
)

const (
	user    = "X-User-Id"
	typeURI = "https://ibid-go.github.io/problems/"
)

// faults is a store whose verbs can be made to fail, or to wait.
type faults struct {
	ibid.Store
	mu       sync.Mutex
	begin    func() error
	complete func(ctx context.Context) error
	calls    map[string]int // verb → how often it was asked
}

func (f *faults) Unwrap() ibid.Store { return f.Store }

func (f *faults) count(verb string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[verb]++
}

func (f *faults) asked(verb string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[verb]
}

func (f *faults) set(begin func() error, complete func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin, f.complete = begin, complete
}

func (f *faults) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	f.count("begin")
	f.mu.Lock()
	begin := f.begin
	f.mu.Unlock()
	if begin != nil {
		if err := begin(); err != nil {
			return ibid.Record{}, err
		}
	}
	return f.Store.Begin(ctx, key, c)
}

func (f *faults) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	f.count("complete")
	f.mu.Lock()
	complete := f.complete
	f.mu.Unlock()
	if complete != nil {
		if err := complete(ctx); err != nil {
			return err
		}
	}
	return f.Store.Complete(ctx, key, token, result, keep)
}

func (f *faults) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	f.count("release")
	return f.Store.Release(ctx, key, token)
}

// service is a guarded handler and what it stands on.
type service struct {
	t       testing.TB
	store   *faults
	engine  *ibid.Engine
	handler http.Handler
	runs    atomic.Int64 // how often the handler ran
	log     *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

// serve guards handle with opts, and engineOpts, which may be nil.
func serve(t testing.TB, opts *ibidhttp.Options, handle http.HandlerFunc, engineOpts ...*ibid.Options) *service {
	t.Helper()
	s := &service{t: t, store: &faults{Store: memstore.New(nil), calls: map[string]int{}}, log: &logBuffer{}}
	o := ibid.Options{Secret: []byte("0123456789abcdef")}
	if len(engineOpts) > 0 {
		o = *engineOpts[0]
	}
	o.Observe = append(o.Observe, ibid.LogTo(slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	var err error
	if s.engine, err = ibid.New(context.Background(), s.store, &o); err != nil {
		t.Fatal(err)
	}
	s.handler = ibidhttp.New(s.engine, ibidhttp.ByHeader(user), opts)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		handle(w, r)
	}))
	return s
}

// created answers like a payments service, with another payment each time.
func created() http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		id := n.Add(1)
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/payments/"+string(rune('0'+id)))
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"payment_id": id})
	}
}

// request makes a POST /payments of user u-1; lines are more header lines, "Name: value".
func request(key, body string, lines ...string) *http.Request {
	r := httptest.NewRequest("POST", "/payments", strings.NewReader(body))
	r.Header.Set(user, "u-1")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// at changes the method and target of r.
func at(r *http.Request, method, target string) *http.Request {
	n := httptest.NewRequest(method, target, r.Body)
	n.Header = r.Header
	return n
}

func (s *service) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func (s *service) post(key, body string, lines ...string) *httptest.ResponseRecorder {
	return s.do(request(key, body, lines...))
}

// wantRuns checks how often the handler ran.
func (s *service) wantRuns(n int64) {
	s.t.Helper()
	if got := s.runs.Load(); got != n {
		s.t.Errorf("the handler ran %d times, want %d", got, n)
	}
}

// wantProblem checks an answer of the middleware's own.
func wantProblem(t testing.TB, w *httptest.ResponseRecorder, status int, typ string) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Errorf("%d %q is no problem: %v", w.Code, w.Body, err)
		return
	}
	if w.Code != status || p.Status != status || p.Type != typ {
		t.Errorf("got %d, problem %d %q, want %d %q", w.Code, p.Status, p.Type, status, typ)
	}
	if p.Title == "" || p.Detail == "" {
		t.Errorf("problem without words: %s", w.Body)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type %q", ct)
	}
	if link := w.Header().Get("Link"); link != "<"+typ+`>; rel="describedby"` {
		t.Errorf("Link %q", link)
	}
	if cc := w.Header().Get("Cache-Control"); cc != "no-store" {
		t.Errorf("Cache-Control %q", cc)
	}
}

// wantReplay checks that replay is first again: status, body and headers, save
// for what is made anew.
func wantReplay(t testing.TB, first, replay *httptest.ResponseRecorder, madeAnew ...string) {
	t.Helper()
	if replay.Code != first.Code || !bytes.Equal(replay.Body.Bytes(), first.Body.Bytes()) {
		t.Errorf("replay %d %q, first %d %q", replay.Code, replay.Body, first.Code, first.Body)
	}
	if replay.Header().Get("Idempotent-Replayed") != "true" || first.Header().Get("Idempotent-Replayed") != "" {
		t.Errorf("marker: first %v, replay %v", first.Header(), replay.Header())
	}
	a, b := first.Result().Header.Clone(), replay.Result().Header.Clone()
	for _, name := range append(madeAnew, "Idempotent-Replayed", "Idempotency-Expires", "Date") {
		a.Del(name)
		b.Del(name)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if !bytes.Equal(x, y) {
		t.Errorf("header of the replay %s, of the first answer %s", y, x)
	}
}

// tooLarge is a store that takes no results of more than a few bytes.
type tooLarge struct{ ibid.Store }

func (s tooLarge) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if len(result) > 32 {
		return ibid.ErrTooLarge
	}
	return s.Store.Complete(ctx, key, token, result, keep)
}
