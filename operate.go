package ibid

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Operation is what is kept of a key, opened for an operator.
type Operation struct {
	// Key is the digest of the operation's key.
	Key Digest
	// Record is what the store keeps; its Result and Label are sealed.
	Record Record
	// Label is the opened label; "" when there is none, or its key is gone.
	Label string
	// Value is the result of a completed operation; nil in a list.
	Value []byte
	// Failure is the text of the error that was recorded with Final.
	Failure string
	// NotKept is true when the operation completed without its result being kept.
	NotKept bool
}

// Inspect returns what is kept of key. Nothing kept is State Absent and no
// error. ErrDamaged comes with everything but the result.
func (e *Engine) Inspect(ctx context.Context, key Digest) (Operation, error) {
	rec, err := e.lookFor(ctx, &operation{digest: key})
	op := Operation{Key: key, Record: rec, Label: e.sealer.openLabel(key, rec.Label)}
	if err != nil || rec.State != Completed {
		return op, err
	}
	kind, data, err := e.sealer.open(key, rec.Result)
	switch {
	case err != nil:
		return op, err
	case kind == kindValue:
		op.Value = data
	case kind == kindFinal:
		op.Failure = string(data)
	case kind == kindNotKept:
		op.NotKept = true
	}
	return op, nil
}

// List returns up to limit operations in one of states, or in any, of the
// scope, or of all when it is "", in order of their digests, after the digest
// after. Their results are left out. A page of fewer than limit is the last one.
// A store may read all of its records for one page: only ctx bounds List.
func (e *Engine) List(ctx context.Context, scope string, states []State, after Digest, limit int) ([]Operation, error) {
	inspector, err := e.inspector()
	if err != nil {
		return nil, err
	}
	filter := Filter{States: states}
	if scope != "" {
		filter.Scope = e.digests.sum(purposeScope, scope)
	}
	if limit <= 0 {
		return nil, ctx.Err()
	}
	entries, err := inspector.List(ctx, filter, after, limit+1) // one may be the check record
	if err != nil {
		return nil, &StoreError{Verb: "list", Err: err}
	}
	ops := make([]Operation, 0, len(entries))
	for _, en := range entries {
		if en.Key != checkKey && len(ops) < limit {
			ops = append(ops, Operation{Key: en.Key, Record: en.Record, Label: e.sealer.openLabel(en.Key, en.Record.Label)})
		}
	}
	return ops, nil
}

func (e *Engine) inspector() (Inspector, error) {
	i, ok := As[Inspector](e.store)
	if !ok {
		return nil, fmt.Errorf("%w: the store can neither list nor forget", ErrInvalid)
	}
	return i, nil
}

// Resolution is what someone found out about an operation whose outcome was
// unknown. The zero Resolution records an empty result.
type Resolution struct {
	// NotDone says that the effect did not happen and no longer can: the key is
	// freed. The other fields mean nothing then. Attempts that vanished and
	// were taken over go on counting against MaxTakeovers: under Refuse such a
	// key is not claimed again before it is forgotten.
	NotDone bool
	// Failure is recorded as an error marked with Final, when set.
	Failure string
	// Value is recorded as the result, encoded as the work would have
	// encoded it.
	Value []byte
}

// Resolve ends an unknown outcome: key is what Inspect showed, and token that
// of the record it showed. From then on every call gets what was resolved, as
// does the owner, should it still come back. It is kept for the engine's own
// Retain and Remember.
//
// ErrClaimLost reports that the record changed since it was read;
// ErrInProgress that its claim holds; ErrInvalid that there is nothing to resolve.
func (e *Engine) Resolve(ctx context.Context, key Digest, token Token, r Resolution) error {
	rec, err := e.lookFor(ctx, &operation{digest: key})
	switch {
	case err != nil:
		return err
	case rec.Token != token:
		return ErrClaimLost
	case rec.State == InProgress:
		return &InProgressError{RetryAfter: max(rec.Lease, 1), Lease: rec.Lease}
	case rec.State == Released && rec.Vanished > 0:
		// The outcome of an earlier attempt than the last one is unknown. Only
		// a claim can be completed, or released.
		if token, err = e.reclaim(ctx, key, rec); err != nil {
			return err
		}
	case rec.State != Lapsed:
		return fmt.Errorf("%w: the key is %s, there is nothing to resolve", ErrInvalid, rec.State)
	}
	limit := bound(ctx, e.opts.StoreTimeout)
	defer limit.end()
	verb := "release"
	if r.NotDone {
		err = e.releaseOnly(limit, key, token)
	} else {
		verb = "complete"
		kind, payload := kindValue, r.Value
		if r.Failure != "" {
			kind, payload = kindFinal, []byte(r.Failure)
		}
		keep := Keep{Retain: e.opts.Policy.Retain, Remember: max(e.opts.Policy.Remember, 0)}
		err = e.store.Complete(limit, key, token, e.sealer.seal(key, kind, payload), keep)
	}
	if err != nil && !errors.Is(err, ErrClaimLost) {
		return &StoreError{Verb: verb, Err: err}
	}
	return err
}

// releaseOnly releases the claim of token, and reports ErrClaimLost when it was
// completed meanwhile, of which Release says nothing.
func (e *Engine) releaseOnly(ctx context.Context, key Digest, token Token) error {
	if err := e.store.Release(ctx, key, token); err != nil {
		return err
	}
	rec, err := e.store.Look(ctx, key)
	if err == nil && rec.Token == token && rec.State != Released {
		err = ErrClaimLost
	}
	return err
}

func (e *Engine) reclaim(ctx context.Context, key Digest, rec Record) (Token, error) {
	limit := bound(ctx, e.opts.StoreTimeout)
	defer limit.end()
	claim := e.opts.Policy.claim()
	claim.Token, claim.Fingerprint, claim.Scope, claim.Label = NewToken(), rec.Fingerprint, rec.Scope, rec.Label
	claim.MaxTakeovers, claim.MaxAttempts = -1, 0
	got, err := e.store.Begin(limit, key, claim)
	switch {
	case err != nil:
		return Token{}, &StoreError{Verb: "begin", Err: err}
	case !got.OwnedBy(claim.Token):
		return Token{}, ErrClaimLost
	}
	return claim.Token, nil
}

// Forget drops what is kept of key, on purpose: the next call runs the work
// again, under derived keys of a new generation. token is that of the record
// Inspect showed.
//
// ErrClaimLost reports that the record changed since it was read.
func (e *Engine) Forget(ctx context.Context, key Digest, token Token) error {
	inspector, err := e.inspector()
	if err != nil {
		return err
	}
	within := bound(ctx, e.opts.StoreTimeout)
	defer within.end()
	err = inspector.Forget(within, key, token, e.opts.Policy.Retain)
	if err != nil && !errors.Is(err, ErrClaimLost) {
		return &StoreError{Verb: "forget", Err: err}
	}
	return err
}

// sweepBatch bounds one Sweep of the store, so that none holds others up for
// long.
const sweepBatch = 500

// Sweep deletes stale records now and then every interval, until ctx ends, and
// returns ctx's error. A store that forgets by itself needs none: Sweep then
// returns nil at once. A batch that fails is an EventStoreError, and tried
// again at the next interval.
func (e *Engine) Sweep(ctx context.Context, every time.Duration) error {
	s, ok := As[Sweeper](e.store)
	if !ok {
		return nil
	}
	if every <= 0 {
		return fmt.Errorf("%w: Sweep: interval is %v", ErrInvalid, every)
	}
	for {
		deleted := 0
		for {
			n, err := s.Sweep(ctx, sweepBatch)
			deleted += n
			if err != nil && ctx.Err() == nil {
				e.emit(ctx, Event{Kind: EventStoreError, Verb: "sweep", Err: err})
			}
			if err != nil || n < sweepBatch {
				break
			}
		}
		if deleted > 0 {
			e.emit(ctx, Event{Kind: EventSwept, Size: deleted})
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
	}
}
