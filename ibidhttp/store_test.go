package ibidhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

var errDown = errors.New("connection refused")

func down() error                        { return errDown }
func completeDown(context.Context) error { return errDown }

func TestTheStoreIsDown(t *testing.T) {
	t.Parallel()
	for _, replay := range []bool{false, true} {
		t.Run(fmt.Sprintf("replay=%v", replay), func(t *testing.T) {
			t.Parallel()
			s := serve(t, &ibidhttp.Options{Policy: &ibid.Policy{RetryAfter: 5 * time.Second}}, created())
			if replay {
				s.post("k", "{}")
			}
			runs := s.runs.Load()
			s.store.set(down, nil)
			w := s.post("k", "{}")
			wantProblem(t, w, 503, ibidhttp.TypeUnavailable)
			if w.Header().Get("Retry-After") != "5" {
				t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
			if strings.Contains(w.Body.String(), "refused") {
				t.Errorf("the store's error is shown: %s", w.Body)
			}
			s.wantRuns(runs)
			s.store.set(nil, nil)
			if w := s.post("k", "{}"); w.Code != 201 {
				t.Errorf("after the store came back: %d", w.Code)
			}
			s.wantRuns(1)
		})
	}
}

// Fail open only where the operation names what guards it, and visibly.
func TestDegradedMode(t *testing.T) {
	t.Parallel()
	s := serve(t, &ibidhttp.Options{Policy: &ibid.Policy{Guard: "payments_order_id_key"}}, func(w http.ResponseWriter, r *http.Request) {
		a, _ := ibid.AttemptFrom(r.Context())
		fmt.Fprint(w, "guard ", a.Guard)
	})
	s.store.set(down, nil)
	w := s.post("k", "{}")
	if w.Code != 200 || w.Body.String() != "guard payments_order_id_key" || w.Header().Get("Idempotency-Degraded") != "payments_order_id_key" || w.Header().Get("Idempotency-Expires") != "" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	s.store.set(nil, nil)
	if w := s.post("k", "{}"); w.Header().Get("Idempotency-Degraded") != "" || w.Body.String() != "guard " {
		t.Errorf("with the store: %q %v", w.Body, w.Header())
	}
}

// No byte of the final answer leaves before the record is acknowledged.
func TestNothingIsAnsweredBeforeItIsRecorded(t *testing.T) {
	t.Parallel()
	acknowledge := make(chan struct{})
	recording := make(chan struct{})
	overBoth := func(fail bool) {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			io.WriteString(w, strings.Repeat("x", 100_000))
			w.(http.Flusher).Flush()
		}, &ibid.Options{AnswerTimeout: 200 * time.Millisecond})
		s.store.set(nil, func(context.Context) error {
			if fail {
				return errDown
			}
			recording <- struct{}{}
			<-acknowledge
			return nil
		})
		srv := httptest.NewServer(s.handler)
		defer srv.Close()
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /payments HTTP/1.1\r\nHost: x\r\nX-User-Id: u-1\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
		if !fail {
			<-recording
			conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("%d bytes left before the record was acknowledged", n)
			}
			conn.SetReadDeadline(time.Time{})
			acknowledge <- struct{}{}
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !fail && (resp.StatusCode != 201 || len(body) != 100_000) {
			t.Errorf("%d, %d bytes", resp.StatusCode, len(body))
		}
		if fail && (resp.StatusCode != 503 || !strings.Contains(string(body), ibidhttp.TypeNotRecorded)) {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	overBoth(false)
	overBoth(true)
}

// The result could not be recorded: the caller learns no success, the key is
// not freed, and once the store is back the retry gets the answer.
func TestAResultThatIsNotRecordedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Detail", "secret")
			w.WriteHeader(201)
			io.WriteString(w, "paid")
		})
		s.store.set(nil, completeDown)
		began := time.Now()
		w := s.post("k", "{}")
		wantProblem(t, w, 503, ibidhttp.TypeNotRecorded)
		if w.Header().Get("Retry-After") == "" || w.Header().Get("X-Detail") != "" {
			t.Errorf("header %v", w.Header())
		}
		if took := time.Since(began); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("the caller was told after %v, want about 10 s", took)
		}
		if s.store.asked("release") > 0 {
			t.Error("the key was released after a success")
		}
		w = s.post("k", "{}")
		if w.Code == 201 {
			t.Errorf("before it was recorded: %d", w.Code)
		}
		s.store.set(nil, nil)
		time.Sleep(10 * time.Second)
		w = s.post("k", "{}")
		if w.Code != 201 || w.Body.String() != "paid" || w.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("after the store came back: %d %q", w.Code, w.Body)
		}
		s.wantRuns(1)
		if err := s.engine.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The process dies after the record and before the answer: the retry replays.
func TestTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	func() {
		defer func() { _ = recover() }()
		s.handler.ServeHTTP(brokenWriter{httptest.NewRecorder()}, request("k", "{}"))
	}()
	w := s.post("k", "{}")
	if w.Code != 201 || w.Body.String() != "{\"payment_id\":1}\n" || w.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	s.wantRuns(1)
}

type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) WriteHeader(int) { panic("the process dies") }

// Whatever byte of a recorded result is changed, the outcome is an error or the
// exact answer, and nothing runs.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	first := s.post("k", "{}")
	inner := s.store.Store
	for at := 0; ; at++ {
		flip := &flipped{Store: inner, at: at}
		s.store.Store = flip
		w := s.post("k", "{}")
		if flip.size > 0 && at >= flip.size {
			break
		}
		if w.Code != 500 {
			wantReplay(t, first, w)
			continue
		}
		wantProblem(t, w, 500, ibidhttp.TypeDamaged)
		if w.Header().Get("Retry-After") != "" {
			t.Error("asked to come back")
		}
	}
	s.wantRuns(1)
}

type flipped struct {
	ibid.Store
	at, size int
}

func (s *flipped) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	rec, err := s.Store.Begin(ctx, key, c)
	if s.size = len(rec.Result); s.at < s.size {
		rec.Result[s.at] ^= 0x41
	}
	return rec, err
}

// A result that is intact, and no answer of this middleware, is not guessed at.
func TestAResultThatIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	_, _, err := s.engine.Do(t.Context(), ibid.Call{Key: ibid.Key{Scope: "u-1", ID: ibidhttp.KeyID("POST", "/payments", "k")}},
		func(context.Context) ([]byte, error) { return []byte("HTTP/1.1 200 OK"), nil })
	if err != nil {
		t.Fatal(err)
	}
	s.store.Store = anyPrint{s.store.Store}
	wantProblem(t, s.do(request("k", "")), 500, ibidhttp.TypeDamaged)
	s.wantRuns(0)
}

// anyPrint answers every Begin as if it asked for what was recorded.
type anyPrint struct{ ibid.Store }

func (s anyPrint) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	asked := c.Fingerprint
	c.Fingerprint = ibid.Fingerprint{}
	rec, err := s.Store.Begin(ctx, key, c)
	rec.Fingerprint = asked
	return rec, err
}

func TestWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := created()
		s := serve(t, &ibidhttp.Options{Policy: &ibid.Policy{Retain: time.Hour, Remember: time.Hour}}, h)
		first := s.post("k", "{}")
		time.Sleep(time.Hour - 1500*time.Millisecond)
		w := s.post("k", "{}")
		wantReplay(t, first, w)
		if e := w.Header().Get("Idempotency-Expires"); e != "2" {
			t.Errorf("Idempotency-Expires %q, want 2", e)
		}
		time.Sleep(1500 * time.Millisecond)
		wantProblem(t, s.post("k", "{}"), 410, ibidhttp.TypeExpired)
		time.Sleep(time.Hour)
		if w := s.post("k", "{}"); w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		s.wantRuns(2)
	})
}

func TestInProgress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		opts   ibidhttp.Options
		status int
		replay bool
	}{
		{"409 by default", ibidhttp.Options{}, 409, false},
		{"202 by option", ibidhttp.Options{Statuses: ibidhttp.Statuses{InProgress: 202}}, 202, false},
		{"425 by option", ibidhttp.Options{Statuses: ibidhttp.Statuses{InProgress: 425}}, 425, false},
		{"waiting too short", ibidhttp.Options{Policy: &ibid.Policy{Wait: time.Second}}, 409, false},
		{"waiting", ibidhttp.Options{Policy: &ibid.Policy{Wait: time.Minute}}, 201, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, &c.opts, func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(10 * time.Second)
					w.WriteHeader(201)
				})
				done := make(chan *httptest.ResponseRecorder)
				go func() { done <- s.post("k", "{}") }()
				synctest.Wait()
				w := s.post("k", "{}")
				if !c.replay {
					wantProblem(t, w, c.status, ibidhttp.TypeInProgress)
					if w.Header().Get("Retry-After") != "2" {
						t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
					}
				}
				first := <-done
				if c.replay {
					wantReplay(t, first, w)
				}
				s.wantRuns(1)
			})
		})
	}
}

func TestAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	s := serve(t, &ibidhttp.Options{Limits: ibidhttp.Limits{Attempts: 3}}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	for range 3 {
		if w := s.post("k", "{}"); w.Code != 503 || w.Body.Len() > 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	w := s.post("k", "{}")
	wantProblem(t, w, 429, ibidhttp.TypeTooManyAttempts)
	s.wantRuns(3)
}

func TestDraining(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	first := s.post("k", "{}")
	if err := s.engine.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := s.post("new", "{}")
	wantProblem(t, w, 503, ibidhttp.TypeDraining)
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	wantReplay(t, first, s.post("k", "{}"))
	s.wantRuns(1)
}

// A probe answers in the handler's place.
func TestProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		found ibid.Found
		runs  int64
		body  string
	}{
		{ibid.FoundDone, 1, "found "},
		{ibid.FoundNotDone, 2, "ran"},
		{ibid.FoundUnknown, 1, ""},
	} {
		var derived []string
		vanish := true
		s := serve(t, &ibidhttp.Options{
			Probe: func(w http.ResponseWriter, r *http.Request) ibid.Found {
				body, _ := io.ReadAll(r.Body)
				derived = append(derived, ibid.DerivedKey(r.Context(), "charge"))
				w.Header().Set("X-Probe", string(body))
				w.WriteHeader(201)
				io.WriteString(w, "found ")
				return c.found
			},
		}, func(w http.ResponseWriter, r *http.Request) {
			derived = append(derived, ibid.DerivedKey(r.Context(), "charge"))
			if vanish {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(201)
			io.WriteString(w, "ran")
		})
		func() {
			defer func() { _ = recover() }()
			s.post("k", `{"a":1}`)
		}()
		vanish = false
		w := s.post("k", `{"a":1}`)
		s.wantRuns(c.runs)
		if c.body == "" {
			wantProblem(t, w, 409, ibidhttp.TypeUnknown)
		} else {
			if w.Code != 201 || w.Body.String() != c.body || (w.Header().Get("X-Probe") != "") != (c.found == ibid.FoundDone) {
				t.Errorf("%v: %d %q %v", c.found, w.Code, w.Body, w.Header())
			}
			wantReplay(t, w, s.post("k", `{"a":1}`))
		}
		if derived[0] == "" || derived[0] != derived[1] {
			t.Errorf("derived keys %q", derived)
		}
	}
}

// 500 callers at once with one key: one run, one answer, and the store is asked
// about as often as there are callers.
func TestAStormOnOneKey(t *testing.T) {
	t.Parallel()
	const callers = 500
	s := serve(t, &ibidhttp.Options{Policy: &ibid.Policy{Wait: time.Minute}}, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		created()(w, r)
	})
	var wg sync.WaitGroup
	answers := make([]*httptest.ResponseRecorder, callers)
	for i := range answers {
		wg.Go(func() { answers[i] = s.post("k", "{}") })
	}
	wg.Wait()
	replays := 0
	for _, w := range answers {
		if w.Code != 201 || w.Body.String() != answers[0].Body.String() {
			t.Fatalf("%d %q", w.Code, w.Body)
		}
		if w.Header().Get("Idempotent-Replayed") != "" {
			replays++
		}
	}
	s.wantRuns(1)
	if replays != callers-1 {
		t.Errorf("%d of %d answers say that they are replays", replays, callers)
	}
	if n := s.store.asked("begin"); n > callers+1 {
		t.Errorf("the store was asked %d times to begin", n)
	}
}
