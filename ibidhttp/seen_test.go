package ibidhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// What went wrong in other libraries, and is not shown by a test elsewhere.

// The claim was granted and the reply was lost; the repeated call must not be
// told that somebody else holds its own claim.
func TestALostReplyToBegin(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	lossy := &lostReply{Store: s.store.Store, left: 2}
	s.store.Store = lossy
	if w := s.post("k", "{}"); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if lossy.left != 0 {
		t.Error("no reply was lost")
	}
	s.wantRuns(1)
}

// lostReply applies Begin and loses its reply.
type lostReply struct {
	ibid.Store
	left int
}

func (s *lostReply) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	rec, err := s.Store.Begin(ctx, key, c)
	if s.left > 0 {
		s.left--
		return ibid.Record{}, errDown
	}
	return rec, err
}

// The result was recorded and the reply was lost: that is a success.
func TestALostReplyToComplete(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	left := 2
	inner := s.store.Store
	s.store.Store = lostComplete{inner, &left}
	first := s.post("k", "{}")
	if first.Code != 201 || left != 0 {
		t.Errorf("%d %s", first.Code, first.Body)
	}
	wantReplay(t, first, s.post("k", "{}"))
	s.wantRuns(1)
}

type lostComplete struct {
	ibid.Store
	left *int
}

func (s lostComplete) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	err := s.Store.Complete(ctx, key, token, result, keep)
	if *s.left > 0 {
		*s.left--
		return errDown
	}
	return err
}

// A handler longer than its lease: one run, under every takeover policy.
func TestAHandlerLongerThanItsLease(t *testing.T) {
	t.Parallel()
	for _, takeover := range []ibid.Takeover{ibid.Refuse, ibid.Retry} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, &ibidhttp.Options{Policy: &ibid.Policy{Takeover: takeover}}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(4 * time.Minute)
				w.WriteHeader(201)
			})
			done := make(chan *httptest.ResponseRecorder)
			go func() { done <- s.post("k", "{}") }()
			for range 7 {
				time.Sleep(31 * time.Second)
				wantProblem(t, s.post("k", "{}"), 409, ibidhttp.TypeInProgress)
			}
			wantReplay(t, <-done, s.post("k", "{}"))
			s.wantRuns(1)
		})
	}
}

// MaxRun ends a handler that hangs; what it still answers is a guess of its own.
func TestAHandlerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			http.Error(w, "gave up: "+context.Cause(r.Context()).Error(), http.StatusGatewayTimeout)
		})
		began := time.Now()
		wantProblem(t, s.post("k", "{}"), 409, ibidhttp.TypeUnknown)
		if took := time.Since(began); took != ibid.DefaultMaxRun {
			t.Errorf("took %v", took)
		}
		wantProblem(t, s.post("k", "{}"), 409, ibidhttp.TypeUnknown)
		s.wantRuns(1)
	})
}

// A store that never answers, as an exhausted connection pool does not, holds
// its caller for a bounded time.
func TestAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil, created())
		s.store.set(nil, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		wantProblem(t, s.post("k", "{}"), 503, ibidhttp.TypeNotRecorded)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the caller waited %v", took)
		}
		s.store.set(nil, nil)
		time.Sleep(time.Minute)
		if w := s.post("k", "{}"); w.Code != 201 || w.Header().Get("Idempotent-Replayed") == "" {
			t.Errorf("%d", w.Code)
		}
		s.wantRuns(1)
		if err := s.engine.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A replay is one read: it writes nothing, and nothing pings.
func TestWhatARequestAsksOfTheStore(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	count := func() string {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		out := fmt.Sprint(s.store.calls)
		clear(s.store.calls)
		return out
	}
	count()
	s.post("k", "{}")
	if got := count(); got != "map[begin:1 complete:1]" {
		t.Errorf("a first run asked %s", got)
	}
	s.post("k", "{}")
	if got := count(); got != "map[begin:1]" {
		t.Errorf("a replay asked %s", got)
	}
	s.post("k", "other")
	if got := count(); got != "map[begin:1]" {
		t.Errorf("a mismatch asked %s", got)
	}
	s.post("", "{}")
	s.post("a, b", "{}")
	if got := count(); got != "map[]" {
		t.Errorf("requests without a usable key asked %s", got)
	}
}

// The replay engages over a real connection, through a transport that reuses it.
func TestReplaysOverTheWire(t *testing.T) {
	t.Parallel()
	overBoth(t, nil, created(), func(t *testing.T, s *wire) {
		first := s.send("k")
		for range 5 {
			wantSame(t, first, s.send("k"))
		}
		if first.status != 201 || s.send("other").header.Get("Idempotent-Replayed") != "" {
			t.Error("another key is no replay")
		}
		s.wantRuns(2)
	})
}

// A key that was used on one path is answered with nothing of it on another.
func TestAKeyReusedOnAnotherPathShowsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, &ibidhttp.Options{KeySpace: ibidhttp.KeyAlone, KeepHeaders: []string{"Set-Cookie"}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Detail", "secret")
		io.WriteString(w, "secret")
	})
	s.post("k", "{}")
	w := s.do(at(request("k", "{}"), "POST", "/refunds"))
	wantProblem(t, w, 422, ibidhttp.TypeMismatch)
	if strings.Contains(fmt.Sprint(w.Header(), w.Body), "secret") {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

// An effect whose attempt was taken over gets the stored answer, never its own.
func TestALoserGetsTheStoredAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil, nil)
		var n atomic.Int64
		leave := make(chan struct{})
		s.handler = ibidhttp.New(s.engine, ibidhttp.ByHeader(user), &ibidhttp.Options{Policy: &ibid.Policy{Takeover: ibid.Retry}})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			me := n.Add(1)
			w.Header().Set("X-Run", fmt.Sprint(me))
			if me == 1 {
				<-leave
			}
			fmt.Fprint(w, "run ", me)
		}))
		stalled := &stalledExtend{Store: s.store.Store}
		s.store.Store = stalled
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- s.post("k", "{}") }()
		time.Sleep(ibid.DefaultLease + time.Second)
		second := s.post("k", "{}")
		close(leave)
		first := <-done
		if second.Body.String() != "run 2" || first.Body.String() != "run 2" || first.Header().Get("X-Run") != "2" {
			t.Errorf("second %q, first %q %v", second.Body, first.Body, first.Header())
		}
	})
}

// stalledExtend never renews.
type stalledExtend struct{ ibid.Store }

func (stalledExtend) Extend(context.Context, ibid.Digest, ibid.Token, time.Duration) error {
	return errDown
}
