package steps_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/steps"
)

// faulty is a store whose nth call goes wrong.
type faulty struct {
	*memstore.Store
	mu   sync.Mutex
	n    int
	mode string
	at   int
}

var errCut = errors.New("connection cut")

func (f *faulty) do(call func() error) error {
	f.mu.Lock()
	f.n++
	n, mode, at := f.n, f.mode, f.at
	f.mu.Unlock()
	dead := (mode == "kills before" || mode == "kills after") && n > at
	switch {
	case dead: // nothing of a dead process arrives
		return errCut
	case n != at:
		return call()
	case mode == "fails":
		return errCut
	case mode == "loses its reply":
		return errors.Join(call(), errCut)
	case mode == "kills before":
		runtime.Goexit()
	case mode == "kills after":
		_ = call()
		runtime.Goexit()
	}
	return call()
}

func (f *faulty) Unwrap() ibid.Store { return nil }

func (f *faulty) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (r ibid.Record, err error) {
	err = f.do(func() error { r, err = f.Store.Begin(ctx, key, c); return err })
	return r, err
}

func (f *faulty) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	return f.do(func() error { return f.Store.Extend(ctx, key, token, lease) })
}

func (f *faulty) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	return f.do(func() error { return f.Store.Complete(ctx, key, token, result, keep) })
}

func (f *faulty) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	return f.do(func() error { return f.Store.Release(ctx, key, token) })
}

func (f *faulty) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, state []byte) error {
	return f.do(func() error { return f.Store.Checkpoint(ctx, key, token, state) })
}

// Every call of the store goes wrong in every way, and the process dies before
// and after each, and within each step: the operation is finished by whoever asks next,
// no step runs after its result was kept, and each derived key has one effect.
func TestEveryCrashIsResumed(t *testing.T) {
	t.Parallel()
	crashes := 0
	for _, mode := range []string{"fails", "loses its reply", "kills before", "kills after"} {
		for at := 1; at <= 9; at++ { // begin, three steps of two marks, complete, and none
			t.Run(fmt.Sprintf("call %d %s", at, mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { resumes(t, mode, at, "") })
			})
			crashes++
		}
	}
	for _, name := range []string{"stock", "charge", "order"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" the effect of "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { resumes(t, "", 0, when+" "+name) })
			})
			crashes++
		}
	}
	t.Logf("%d points", crashes)
}

func resumes(t *testing.T, mode string, at int, dies string) {
	shared := new(memstore.Store)
	f := &faulty{Store: shared}
	first := newEngine(t, f)
	f.mu.Lock()
	f.n, f.mode, f.at = 0, mode, at
	f.mu.Unlock()
	effects := make(map[string]int)      // derived key → effects, as a downstream that deduplicates sees them
	runs := make(map[string]int)         // step → runs
	finished := make(map[string]bool)    // step → its result was seen by the code behind it
	answers := make(map[string]struct{}) // what callers were told
	work := func(dies string) func(context.Context, *steps.Op) (string, error) {
		return func(ctx context.Context, op *steps.Op) (string, error) {
			receipt := ""
			for _, name := range []string{"stock", "charge", "order"} {
				v, err := steps.Step(ctx, op, name, func(ctx context.Context, info steps.StepInfo) (string, error) {
					if finished[name] {
						t.Errorf("%s runs again after its result was kept", name)
					}
					if runs[name]++; runs[name] > 1 && !info.Maybe {
						t.Errorf("%s runs again, and is not told: %+v", name, info)
					}
					if dies == "before "+name {
						crash()
					}
					if effects[info.Key] == 0 {
						effects[info.Key]++
					}
					if dies == "after "+name {
						crash()
					}
					return name + " done;", nil
				})
				if err != nil {
					return "", err
				}
				finished[name] = true
				receipt += v
			}
			return receipt, nil
		}
	}
	attempt(func() {
		if v, _, err := steps.Run(t.Context(), first, order, work(dies)); err == nil {
			answers[v] = struct{}{}
		}
	})
	f.mu.Lock()
	if f.n < at && at < 9 {
		t.Fatalf("only %d calls of the store: nothing went wrong", f.n)
	}
	f.mode = ""
	f.mu.Unlock()
	time.Sleep(30 * time.Second)
	if err := first.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	heir := newEngine(t, shared)
	for range 2 {
		v, _, err := steps.Run(t.Context(), heir, order, work(""))
		if err != nil {
			t.Fatalf("the next caller: %v", err)
		}
		answers[v] = struct{}{}
	}
	if len(answers) != 1 || len(effects) != 3 {
		t.Errorf("answers %v, effects %v", answers, effects)
	}
}
