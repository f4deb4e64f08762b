package ibid

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Recording, as a policy: the result is recorded before the caller learns it.
// The store is asked again, with back-off, until it acknowledges, says that the
// claim is lost, or AnswerTimeout is over; then the caller is told
// ErrNotRecorded and the result is owed. After a success nothing is ever
// released. A loser returns the stored answer, never its own.

// ending is how the work ended, as it is recorded.
type ending struct {
	kind    kind
	payload []byte
	live    error // what belongs to the payload in the live answer
	sealed  []byte
}

// record records how the work of a ended, and returns it as the caller gets it.
func (e *Engine) record(a *attempt, o ending, began time.Time) ([]byte, Outcome, error) {
	if p := a.preparation(); p != nil && o.kind == kindValue {
		o.payload, o.sealed = p.payload, p.sealed
	} else {
		o.sealed = e.sealer.seal(a.Key, o.kind, o.payload)
	}
	ev := a.event(EventCompleted)
	now := time.Now()
	ev.Size, ev.Took = len(o.payload), now.Sub(began)
	err := e.completeInTime(a, &o, now)
	switch {
	case err == nil:
		return e.completed(a, o, ev)
	case errors.Is(err, ErrClaimLost):
		ev.Kind = EventClaimLost
		e.emit(a, ev)
		return e.lost(a)
	}
	ev.Kind, ev.Err = EventNotRecorded, err
	e.emit(a, ev)
	e.oweComplete(a, o)
	return nil, a.outcome(), fmt.Errorf("%w: %w", ErrNotRecorded, &StoreError{Verb: "complete", Err: err})
}

// completed tells everyone in this process that the result is recorded.
func (e *Engine) completed(a *attempt, o ending, ev Event) ([]byte, Outcome, error) {
	out := a.outcome()
	if o.kind != kindNotKept {
		out.Expires = a.op.policy.Retain
	}
	e.emit(a, ev)
	e.flights.publish(a.Key, Record{
		State: Completed, Token: a.Token, Fence: a.Fence, Attempt: a.Number,
		Fingerprint: a.op.fingerprint, Window: a.op.policy.Retain, Result: o.sealed,
	})
	if o.live != nil {
		return nil, out, o.live
	}
	return o.payload, out, nil
}

// complete asks the store once, within limit. What the store can never keep is
// recorded as not kept.
func (e *Engine) complete(a *attempt, o *ending, limit time.Duration) error {
	ctx := boundDetached(a.parent, min(limit, e.opts.StoreTimeout))
	defer ctx.end()
	err := e.store.Complete(ctx, a.Key, a.Token, o.sealed, a.keep())
	if errors.Is(err, ErrTooLarge) && o.kind != kindNotKept {
		o.kind, o.sealed = kindNotKept, e.sealer.seal(a.Key, kindNotKept, nil)
		err = e.store.Complete(ctx, a.Key, a.Token, o.sealed, a.keep())
	}
	return err
}

// completeInTime repeats complete until it is acknowledged, the claim is lost,
// or AnswerTimeout is over.
func (e *Engine) completeInTime(a *attempt, o *ending, began time.Time) error {
	err := e.complete(a, o, e.opts.AnswerTimeout)
	if err == nil || errors.Is(err, ErrClaimLost) {
		return err
	}
	return e.completeAgain(a, o, began, err)
}

// completeAgain repeats what failed with err at first.
func (e *Engine) completeAgain(a *attempt, o *ending, began time.Time, err error) error {
	end := began.Add(e.opts.AnswerTimeout)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ev := a.event(EventStoreError)
		ev.Verb, ev.Err = "complete", err
		e.emit(a, ev)
		next := jitter(pause)
		if time.Until(end) <= next {
			return err
		}
		time.Sleep(next)
		if err = e.complete(a, o, time.Until(end)); err == nil || errors.Is(err, ErrClaimLost) {
			return err
		}
	}
}

// oweComplete goes on recording after the caller was told ErrNotRecorded.
func (e *Engine) oweComplete(a *attempt, o ending) {
	e.owe(a.Key, "complete", func(ctx context.Context) error {
		err := e.complete(a, &o, e.opts.StoreTimeout)
		switch {
		case err == nil:
			e.emit(ctx, a.event(EventRecordedLate))
		case errors.Is(err, ErrClaimLost):
			ev := a.event(EventDropped)
			ev.Verb, ev.Err = "complete", err
			e.emit(ctx, ev)
			return nil
		}
		return err
	})
}

// lost returns the answer of whoever took over. The call has ended as EventClaimLost.
func (e *Engine) lost(a *attempt) ([]byte, Outcome, error) {
	rec, err := e.look(a.parent, a.Key)
	if err != nil {
		return nil, a.outcome(), fmt.Errorf("%w: %w", ErrClaimLost, err)
	}
	if rec.State != Completed {
		return nil, a.outcome(), ErrClaimLost
	}
	data, out, kind, err := e.read(&a.op, rec)
	switch kind {
	case EventReplayed:
	case EventMismatch: // the key was forgotten, and used for another request
		return nil, a.outcome(), ErrClaimLost
	default:
		out.Expires = 0
	}
	return data, out, err
}

func (e *Engine) look(ctx context.Context, key Digest) (Record, error) {
	limit := boundDetached(ctx, e.opts.StoreTimeout)
	defer limit.end()
	rec, err := e.store.Look(limit, key)
	if err != nil {
		return rec, &StoreError{Verb: "look", Err: err}
	}
	return rec, nil
}

func (a *attempt) keep() Keep {
	return Keep{Retain: a.op.policy.Retain, Remember: max(a.op.policy.Remember, 0)}
}

// Completion is what a store's CompleteTx writes in the caller's own
// transaction, in place of the engine's Complete.
type Completion struct {
	Key    Digest
	Token  Token
	Result []byte // sealed
	Keep   Keep
}

type preparation struct{ payload, sealed []byte }

// Prepare makes value the result of the work that ctx belongs to, for a store's
// CompleteTx, so that it is recorded in the same transaction as the effect. The
// work then commits and returns the same value; whatever it returns, value is
// what every caller gets once the transaction has committed. In work
// of Engine.Do, value is a []byte. Prepare is called once per attempt.
//
// ErrInvalid reports that ctx belongs to no work with a claim, or that value
// was prepared already.
func Prepare(ctx context.Context, value any) (Completion, error) {
	a := attemptFrom(ctx)
	if a == nil || a.Token.IsZero() {
		return Completion{}, errNoClaim("Prepare")
	}
	var payload []byte
	if a.op.codec != nil {
		var err error
		if payload, err = a.op.codec.Marshal(value); err != nil {
			return Completion{}, fmt.Errorf("%w: Prepare: %w", ErrInvalid, err)
		}
	} else {
		var ok bool
		if payload, ok = value.([]byte); !ok {
			return Completion{}, fmt.Errorf("%w: Prepare: the work returns bytes, so value must be []byte, not %T", ErrInvalid, value)
		}
	}
	p := &preparation{payload: payload, sealed: a.engine.sealer.seal(a.Key, kindValue, payload)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prepared != nil {
		return Completion{}, fmt.Errorf("%w: Prepare: called twice in one attempt", ErrInvalid)
	}
	a.prepared = p
	return Completion{Key: a.Key, Token: a.Token, Result: p.sealed, Keep: a.keep()}, nil
}

func (a *attempt) preparation() *preparation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.prepared
}
