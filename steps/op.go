package steps

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// Op is an operation in one of its attempts. Its steps may run at the same
// time; each name is used once.
type Op struct {
	codec ibid.Codec

	mu    sync.Mutex // held while the state is being kept: what is kept last is the latest
	state state
}

// StepInfo is what a step can learn about itself.
type StepInfo struct {
	// Key is the derived key to hand downstream: ibid.DerivedKey of the step's
	// name, the same in every attempt.
	Key string
	// Attempt counts the attempts that began this step, from 1 on.
	Attempt int
	// Maybe is true when an earlier attempt began the step and it was not kept
	// whether it finished: its effect may have happened.
	Maybe bool
}

// DerivedKey returns the key to hand downstream for a part of the operation that
// is no step of its own. See ibid.DerivedKey.
func (op *Op) DerivedKey(ctx context.Context, label string) string {
	return ibid.DerivedKey(ctx, label)
}

// Step runs fn as the step of that name, unless an earlier attempt finished it, and
// returns its result. A step that is maybe done runs again, and is told so: it hands
// StepInfo.Key downstream, or looks itself whether it is done.
//
// A step that returns an error stays maybe done: the answer of a downstream may have
// been lost on its way. NotDone says otherwise.
func Step[T any](ctx context.Context, op *Op, name string, fn func(context.Context, StepInfo) (T, error)) (T, error) {
	return AtMostOnce(ctx, op, name, fn, nil)
}

// AtMostOnce is Step for what must not run again while it may have happened, and whose
// downstream does not deduplicate. Where the step is maybe done, resolve asks the downstream:
// ibid.FoundDone comes with the step's result, ibid.FoundNotDone lets fn run, and with
// ibid.FoundUnknown, or an error, the attempt ends with an unknown outcome, and the
// next one asks again. fn must have ended, or no longer be able to have an
// effect, when resolve says that it has not happened.
func AtMostOnce[T any](ctx context.Context, op *Op, name string, fn func(context.Context, StepInfo) (T, error), resolve func(context.Context, StepInfo) (ibid.Found, T, error)) (T, error) {
	var v T
	done, info, err := op.enter(ctx, name, &v)
	if err != nil || done {
		return v, err
	}
	stepCtx := context.WithValue(ctx, stepKey{}, &inStep{info: info})
	if info.Maybe && resolve != nil {
		found, v, err := resolve(stepCtx, info)
		switch {
		case err == nil && found == ibid.FoundDone:
			return v, op.finish(ctx, name, v)
		case err == nil && found == ibid.FoundNotDone:
		default:
			ibid.EffectStarted(ctx) // of an earlier attempt, for all that is known
			return v, fmt.Errorf("steps: %s: it cannot be told whether it was done: %w", name, errors.Join(ibid.ErrUnknown, err))
		}
	}
	if err := op.begin(ctx, name); err != nil {
		return v, err
	}
	v, err = fn(stepCtx, info)
	if err == nil {
		return v, op.finish(ctx, name, v)
	}
	if no := (*notDone)(nil); errors.As(err, &no) {
		op.unmark(ctx, name)
	}
	return v, err
}

// NotDone marks the error of a step that certainly had no effect, nor any
// earlier attempt of it: the next attempt is not told that the step is maybe done.
// NotDone of nil is nil.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return &notDone{err}
}

type notDone struct{ error }

func (n *notDone) Unwrap() error { return n.error }

// enter reaches the step, and decodes its result into v when it is finished.
func (op *Op) enter(ctx context.Context, name string, v any) (done bool, info StepInfo, err error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return false, info, err
	}
	st, err := op.state.reach(name)
	if err != nil {
		return false, info, err
	}
	if st.done {
		if err := op.codec.Unmarshal(st.result, v); err != nil {
			err = fmt.Errorf("%w: result of step %q: %w", ibid.ErrDamaged, name, err)
			return false, info, err
		}
		return true, info, nil
	}
	return false, StepInfo{Key: ibid.DerivedKey(ctx, name), Attempt: st.attempts + 1, Maybe: st.attempts > 0}, nil
}

// begin keeps the mark that the step is begun. When that is not acknowledged, the step
// does not run.
func (op *Op) begin(ctx context.Context, name string) error {
	op.mu.Lock()
	defer op.mu.Unlock()
	st := op.state.find(name)
	st.attempts++
	if err := op.save(ctx); err != nil {
		st.attempts--
		return fmt.Errorf("steps: begin %s: %w", name, err)
	}
	return nil
}

// finish keeps the result of the step. The step is done: when that cannot be kept,
// nobody may say that nothing happened.
func (op *Op) finish(ctx context.Context, name string, v any) error {
	result, err := op.codec.Marshal(v)
	if err == nil {
		op.mu.Lock()
		defer op.mu.Unlock()
		st := op.state.find(name)
		st.done, st.result = true, result
		for pause := 20 * time.Millisecond; ; pause *= 4 {
			if err = op.save(ctx); err == nil {
				return nil
			}
			if errors.Is(err, ibid.ErrClaimLost) || pause > time.Second {
				break
			}
			time.Sleep(pause)
		}
		st.done, st.result = false, nil
	}
	ibid.EffectStarted(ctx)
	return fmt.Errorf("steps: keep the result of %s: %w", name, err)
}

// unmark takes the mark back. One that stays is the safe side.
func (op *Op) unmark(ctx context.Context, name string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.state.find(name).attempts = 0
	_ = op.save(ctx)
}

// save keeps the state. The caller holds mu.
func (op *Op) save(ctx context.Context) error {
	return ibid.SaveSteps(ctx, op.state.append(nil))
}
