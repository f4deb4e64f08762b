package ibid

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Do runs work under call.Key, unless an earlier call did, and returns its
// result: the same bytes for every call of the key until the window ends. The
// errors are those of errors.go; an error of the work itself is returned as it
// is. The result belongs to the caller.
func (e *Engine) Do(ctx context.Context, call Call, work Work) ([]byte, Outcome, error) {
	return e.do(ctx, call, work, nil)
}

// operation is a call, checked and digested.
type operation struct {
	key         Key
	digest      Digest
	scope       Digest
	fingerprint Fingerprint
	policy      Policy
	probe       Prober
	label       string
	codec       Codec   // of the work's values; nil when it returns bytes
	tx          TxStore // nil in lease mode
}

func (e *Engine) do(ctx context.Context, call Call, work Work, codec Codec) ([]byte, Outcome, error) {
	op, err := e.operation(call, codec)
	switch {
	case err != nil:
	case work == nil:
		err = fmt.Errorf("%w: Do: the work is nil", ErrInvalid)
	default:
		err = ctx.Err()
	}
	if err != nil {
		e.emit(ctx, Event{Kind: EventRefused, Err: err})
		return nil, Outcome{}, err
	}
	if !e.gate.enter() {
		return e.drained(ctx, &op)
	}
	defer e.gate.leave()
	if op.policy.Wait > 0 || op.tx != nil {
		return e.wait(ctx, &op, work)
	}
	a, rec, err := e.begin(ctx, &op)
	switch {
	case err != nil:
		return e.refuse(ctx, &op, work, err)
	case a == nil:
		return e.answer(ctx, &op, rec)
	}
	defer e.flights.poke(op.digest, op.fingerprint)
	return e.run(a, work)
}

func (e *Engine) operation(call Call, codec Codec) (op operation, err error) {
	if err := call.Key.check(); err != nil {
		return op, err
	}
	op.policy, err = e.policy(call.Policy)
	if err != nil {
		return op, err
	}
	if err := op.policy.checkProbe(call.Probe != nil); err != nil {
		return op, err
	}
	op.key, op.fingerprint, op.probe, op.label = call.Key, call.Fingerprint, call.Probe, call.Label
	op.codec, op.tx = codec, call.Tx
	op.digest = e.Digest(call.Key)
	op.scope = e.digests.sum(purposeScope, call.Key.Scope)
	return op, nil
}

// Digest returns the key as a store sees it.
func (e *Engine) Digest(key Key) Digest {
	return e.digests.sum(purposeKey, key.Scope, key.ID)
}

// begin asks the store for the key. It returns the attempt when the claim was
// granted, and what stands there otherwise.
//
// A Begin whose reply was lost may have been applied. It is repeated under the
// same token, and when that stays unanswered the claim is released: nothing
// has run under it.
func (e *Engine) begin(ctx context.Context, op *operation) (*attempt, Record, error) {
	claim := e.claim(op)
	asked := time.Now()
	limit := boundFrom(asked, ctx, e.opts.StoreTimeout)
	defer limit.end()
	for try := 1; ; try++ {
		rec, err := e.store.Begin(limit, op.digest, claim)
		if err == nil {
			if rec.OwnedBy(claim.Token) {
				return e.newAttempt(ctx, op, rec, asked), rec, nil
			}
			return nil, rec, nil
		}
		e.emit(ctx, Event{Kind: EventStoreError, Verb: "begin", Key: op.digest, Scope: op.scope, Err: err, Took: time.Since(asked)})
		if errors.Is(err, ErrDamaged) || errors.Is(err, ErrFull) {
			return nil, Record{}, &StoreError{Verb: "begin", Err: err}
		}
		if try == 3 || sleep(limit, jitter(20*time.Millisecond)) != nil {
			e.oweRelease(op.digest, claim.Token)
			if ctx.Err() != nil {
				return nil, Record{}, ctx.Err()
			}
			return nil, Record{}, &StoreError{Verb: "begin", Err: err}
		}
		asked = time.Now()
	}
}

// claim returns what the operation asks of the store, under a new token.
func (e *Engine) claim(op *operation) Claim {
	c := op.policy.claim()
	c.Token = NewToken()
	c.Fingerprint = op.fingerprint
	c.Scope = op.scope
	c.Label = e.sealer.sealLabel(op.digest, op.label)
	return c
}

func (e *Engine) newAttempt(ctx context.Context, op *operation, rec Record, asked time.Time) *attempt {
	a := &attempt{
		Attempt: Attempt{
			Key: op.digest, Token: rec.Token, Fence: rec.Fence,
			Number: rec.Attempt, Vanished: rec.Vanished,
		},
		op: *op, engine: e, generation: rec.Generation, steps: rec.Steps, claimedAt: asked,
		parent: ctx, detached: op.policy.Detach, deadline: asked.Add(op.policy.MaxRun),
	}
	kind := EventClaimed
	if rec.Vanished > 0 {
		kind = EventTakenOver
	}
	e.emit(ctx, a.event(kind))
	return a
}

// answer says what a record means to a caller that did not get the claim. A
// mismatch comes before everything but expiry: another request under the key
// is wrong, whatever became of the first.
func (e *Engine) answer(ctx context.Context, op *operation, rec Record) ([]byte, Outcome, error) {
	data, out, kind, err := e.read(op, rec)
	if kind != EventReplayed {
		out.Expires = 0
	}
	e.emit(ctx, Event{
		Kind: kind, Key: op.digest, Scope: op.scope, Attempt: rec.Attempt, Fence: rec.Fence,
		Size: len(data), Err: err,
	})
	return data, out, err
}

func (e *Engine) read(op *operation, rec Record) ([]byte, Outcome, EventKind, error) {
	out := Outcome{Attempt: rec.Attempt, Fence: rec.Fence, Expires: rec.Window}
	open := rec.Fingerprint == Fingerprint{} && rec.State == Released
	switch {
	case rec.State == Expired:
		return nil, out, EventExpired, ErrExpired
	case rec.Fingerprint.Version() > fingerprintVersion:
		err := fmt.Errorf("%w: fingerprint version %d, this program knows %d", ErrDamaged, rec.Fingerprint.Version(), fingerprintVersion)
		return nil, out, EventDamaged, err
	case rec.Fingerprint != op.fingerprint && !open:
		return nil, out, EventMismatch, ErrMismatch
	}
	switch rec.State {
	case Completed:
		kind, data, err := e.sealer.open(op.digest, rec.Result)
		switch {
		case err != nil:
			return nil, out, EventDamaged, err
		case kind == kindNotKept:
			return nil, out, EventNotKept, ErrNotKept
		}
		out.Replayed = true
		if kind == kindFinal {
			return nil, out, EventReplayed, &FinalError{Message: string(data)}
		}
		return data, out, EventReplayed, nil
	case InProgress:
		return nil, out, EventInProgress, &InProgressError{RetryAfter: op.policy.RetryAfter, Lease: rec.Lease}
	case Released:
		if n := op.policy.MaxAttempts; n > 0 && rec.Attempt >= n && rec.Vanished == 0 {
			return nil, out, EventAttempts, ErrAttempts
		}
		return nil, out, EventUnknown, &UnknownError{}
	case Lapsed:
		return nil, out, EventUnknown, &UnknownError{}
	}
	return nil, out, EventDamaged, fmt.Errorf("%w: the store answered %q and granted no claim", ErrDamaged, rec.State)
}

// refuse says what an unanswered Begin means: the caller went away, the store
// cannot be asked, or its record not be understood. Only an operation that
// names a guard runs all the same.
func (e *Engine) refuse(ctx context.Context, op *operation, work Work, err error) ([]byte, Outcome, error) {
	var failed *StoreError
	if !errors.As(err, &failed) {
		e.emit(ctx, Event{Kind: EventCancelled, Key: op.digest, Scope: op.scope, Err: err})
		return nil, Outcome{}, err
	}
	if op.policy.Guard != "" {
		return e.runGuarded(ctx, op, work, err)
	}
	kind := EventUnavailable
	if errors.Is(err, ErrDamaged) {
		kind = EventDamaged
	}
	e.emit(ctx, Event{Kind: kind, Key: op.digest, Scope: op.scope, Verb: failed.Verb, Err: err})
	return nil, Outcome{}, err
}

// drained serves replays, and nothing else.
func (e *Engine) drained(ctx context.Context, op *operation) ([]byte, Outcome, error) {
	limit := bound(ctx, e.opts.StoreTimeout)
	defer limit.end()
	rec, err := e.store.Look(limit, op.digest)
	if err == nil && (rec.State == Completed || rec.State == Expired) {
		return e.answer(ctx, op, rec)
	}
	e.emit(ctx, Event{Kind: EventRefused, Key: op.digest, Scope: op.scope, Err: ErrDraining})
	return nil, Outcome{}, ErrDraining
}
