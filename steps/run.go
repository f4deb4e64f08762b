package steps

import (
	"context"
	"errors"
	"fmt"

	"github.com/ibid-go/ibid"
)

// ErrChanged reports that the program no longer reaches a step that an earlier
// attempt began: what it did would be forgotten. The key is released; put
// the step back, or resolve the operation by hand.
var ErrChanged = errors.New("steps: a step of an earlier attempt was not reached")

// Run is ibid.Do for work of several steps. An operation whose attempt vanished
// is taken over by the next call, as under ibid.Retry, unless call.Policy names
// another policy: what each step is owed is decided step by step. ErrInvalid reports
// a call in transactional mode, which has nothing to resume.
func Run[T any](ctx context.Context, e *ibid.Engine, call ibid.Call, fn func(context.Context, *Op) (T, error)) (T, ibid.Outcome, error) {
	if call.Tx != nil {
		return *new(T), ibid.Outcome{}, fmt.Errorf("%w: steps.Run: Call.Tx is set: a transaction leaves no steps behind", ibid.ErrInvalid)
	}
	var p ibid.Policy
	if call.Policy != nil {
		p = *call.Policy
	}
	if p.Takeover == 0 {
		p.Takeover = ibid.Retry
	}
	call.Policy = &p
	return ibid.Do(ctx, e, call, func(ctx context.Context) (T, error) {
		return Resume(ctx, fn)
	})
}

// Resume is Run for work that holds a claim already, such as a handler behind
// package ibidhttp, whose policy must be ibid.Retry or ibid.Probe. It is called
// once per attempt.
func Resume[T any](ctx context.Context, fn func(context.Context, *Op) (T, error)) (T, error) {
	op, err := load(ctx)
	if err != nil {
		return *new(T), err
	}
	v, err := fn(ctx, op)
	if final := (*ibid.FinalError)(nil); err == nil || errors.As(err, &final) {
		if name, all := op.state.reached(); !all {
			return *new(T), fmt.Errorf("%w: %q", ErrChanged, name)
		}
	}
	return v, err
}

// load returns the operation that ctx's attempt works on.
func load(ctx context.Context) (*Op, error) {
	e, ok := ibid.EngineFrom(ctx)
	if !ok {
		return nil, fmt.Errorf("%w: steps: the context belongs to no work", ibid.ErrInvalid)
	}
	if _, ok := ibid.As[ibid.Checkpointer](e.Store()); !ok {
		return nil, fmt.Errorf("%w: steps: the store keeps no steps", ibid.ErrInvalid)
	}
	data, err := ibid.LoadSteps(ctx)
	if err != nil {
		return nil, err
	}
	op := &Op{codec: e.Codec()}
	op.state, err = decode(data)
	return op, err
}
