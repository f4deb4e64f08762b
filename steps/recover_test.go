package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/steps"
)

// shop takes orders of two steps, and keeps their requests.
type shop struct {
	engine *ibid.Engine
	policy *ibid.Policy
	bank   bank
	fails  error // of the second step
}

func (s *shop) take(ctx context.Context, call ibid.Call, body []byte, dies bool) (string, error) {
	call.Policy = s.policy
	v, _, err := steps.Run(ctx, s.engine, call, func(ctx context.Context, op *steps.Op) (string, error) {
		if err := op.Keep(ctx, steps.Request{Name: "order", Method: "POST", Path: "/orders", Body: body}); err != nil {
			return "", err
		}
		if _, err := steps.Step(ctx, op, "charge", s.bank.call); err != nil {
			return "", err
		}
		if dies {
			crash()
		}
		return steps.Step(ctx, op, "order", func(context.Context, steps.StepInfo) (string, error) {
			return "order of " + string(body), s.fails
		})
	})
	return v, err
}

func (s *shop) handlers() map[string]steps.Handler {
	return map[string]steps.Handler{"order": func(ctx context.Context, r steps.Request) error {
		if r.Method != "POST" || r.Path != "/orders" {
			return fmt.Errorf("request %+v", r)
		}
		_, err := s.take(ctx, r.Call, r.Body, false)
		return err
	}}
}

func orderCall(n int) ibid.Call {
	call := order
	call.Key.ID = fmt.Sprintf("order-%d\xff", n) // a key need not be text
	return call
}

// Without any client's retry, orders whose process died are finished, once, also by
// several completers at the same time, in batches smaller than what is there.
func TestRecoverFinishesWhatDied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := new(memstore.Store)
		s := &shop{engine: newEngine(t, store)}
		const died = 25
		for n := range died {
			attempt(func() { _, _ = s.take(t.Context(), orderCall(n), []byte("3 apples"), true) })
		}
		var finished atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				p, err := steps.RecoverOnce(t.Context(), newEngine(t, store), s.handlers(), &steps.RecoverOptions{Batch: 4, Parallel: 3})
				if err != nil {
					t.Error(err)
				}
				finished.Add(int64(p.Finished))
			})
		}
		wg.Wait()
		if finished.Load() < died || s.bank.calls != died {
			t.Errorf("%d finished, %d charges, want %d", finished.Load(), s.bank.calls, died)
		}
		for n := range died { // a client that comes back after all
			if v, err := s.take(t.Context(), orderCall(n), []byte("3 apples"), false); err != nil || v != "order of 3 apples" {
				t.Fatalf("%q, %v", v, err)
			}
		}
		if s.bank.calls != died {
			t.Errorf("%d charges", s.bank.calls)
		}
	})
}

// Who fails is left alone, longer each time, and in the end for good.
func TestRecoverBacksOffAndGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shop{engine: newEngine(t, new(memstore.Store)), fails: errors.New("shop is closed")}
		attempt(func() { _, _ = s.take(t.Context(), order, nil, true) })
		time.Sleep(time.Minute)
		began := time.Now()
		var mu sync.Mutex
		var tried []time.Duration
		var last error
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		err := steps.Recover(ctx, s.engine, s.handlers(), &steps.RecoverOptions{
			Every: time.Minute, Backoff: 10 * time.Minute, MaxAttempts: 5, Released: true,
			Observe: func(_ context.Context, r steps.Redriven) {
				mu.Lock()
				defer mu.Unlock()
				tried, last = append(tried, time.Since(began).Round(time.Minute)), r.Err
			},
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		want := []time.Duration{0, 10 * time.Minute, 30 * time.Minute, 70 * time.Minute}
		if len(tried) < 5 || !slices.Equal(tried[:4], want) || !errors.Is(last, ibid.ErrUnknown) {
			t.Errorf("tried after %v, in the end %v, want %v and then ErrUnknown", tried, last, want)
		}
		op, err := s.engine.Inspect(t.Context(), s.engine.Digest(order.Key))
		if err != nil || op.Record.Attempt != 5 || s.bank.calls != 1 {
			t.Errorf("%d attempts, %v, %d charges", op.Record.Attempt, err, s.bank.calls)
		}
	})
}

// What still runs is nobody else's.
func TestRecoverLeavesRunningOperationsAlone(t *testing.T) {
	t.Parallel()
	s := &shop{engine: newEngine(t, new(memstore.Store))}
	_, _, err := steps.Run(t.Context(), s.engine, order, func(ctx context.Context, op *steps.Op) (int, error) {
		if err := op.Keep(ctx, steps.Request{Name: "order"}); err != nil {
			return 0, err
		}
		p, err := steps.RecoverOnce(t.Context(), s.engine, s.handlers(), &steps.RecoverOptions{Released: true})
		if err != nil || p != (steps.Pass{}) {
			t.Errorf("%+v, %v", p, err)
		}
		return 1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecoverLeavesAlone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, why string
		policy    *ibid.Policy
		handlers  bool
		released  bool
		fails     error
		dies      bool
		want      steps.Pass
	}{
		{"what was released", "its caller was told of a failure", nil, true, false, errors.New("no"), false, steps.Pass{}},
		{"not what was released, when told to", "", nil, true, true, errors.New("no"), false, steps.Pass{Failed: 1}},
		{"what no handler is there for", "an error that nobody hears", nil, false, false, nil, true, steps.Pass{Failed: 1}},
		{"what may not be taken over any more", "a person must look", &ibid.Policy{MaxTakeovers: 1}, true, false, nil, true, steps.Pass{Finished: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shop{engine: newEngine(t, new(memstore.Store)), policy: row.policy, fails: row.fails}
				attempt(func() { _, _ = s.take(t.Context(), order, nil, row.dies) })
				time.Sleep(time.Minute)
				var handlers map[string]steps.Handler
				if row.handlers {
					handlers = s.handlers()
				}
				p, err := steps.RecoverOnce(t.Context(), s.engine, handlers, &steps.RecoverOptions{Released: row.released})
				if err != nil || p != row.want {
					t.Errorf("%+v, %v, want %+v: %s", p, err, row.want, row.why)
				}
			})
		})
	}
}

// The request lies sealed in the store, and only where the program asked for it.
func TestKeptRequestIsSealed(t *testing.T) {
	t.Parallel()
	store := new(memstore.Store)
	s := &shop{engine: newEngine(t, store), fails: errors.New("not now")}
	secret := []byte("card 4242 4242 4242 4242")
	_, _ = s.take(t.Context(), order, secret, false)
	rec, err := store.Look(t.Context(), s.engine.Digest(order.Key))
	if err != nil || len(rec.Steps) < len(secret) || bytes.Contains(rec.Steps, []byte("4242")) {
		t.Errorf("%q, %v", rec.Steps, err)
	}
	op := ibid.Operation{Key: s.engine.Digest(order.Key), Record: rec}
	r, ok, err := steps.RequestOf(s.engine, op)
	if err != nil || !ok || !bytes.Equal(r.Body, secret) || r.Call.Key != order.Key || r.Call.Fingerprint != order.Fingerprint {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
	// Another operation's request is refused.
	op.Key = s.engine.Digest(ibid.Key{Scope: "x", ID: "y"})
	if _, _, err := steps.RequestOf(s.engine, op); !errors.Is(err, ibid.ErrDamaged) {
		t.Errorf("under another key: %v", err)
	}
	plain, err := ibid.New(t.Context(), new(memstore.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.engine = plain
	if _, err := s.take(t.Context(), order, secret, false); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("without a seal: %v, want ErrInvalid", err)
	}
}
