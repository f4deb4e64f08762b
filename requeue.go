package ibid

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Requeuer is a store that can let the work of a key run again under the same
// derived keys.
type Requeuer interface {
	// Requeue makes the record of token a released one of the same generation,
	// kept for window: result, steps and attempts are dropped, and only a claim
	// with the same fingerprint is granted. ErrClaimLost reports that the record
	// changed since token was read, or that its claim holds.
	Requeue(ctx context.Context, key Digest, token Token, window time.Duration) error
}

// Requeue lets the work of key run again, on purpose, for the same request
// and under the same derived keys: a downstream that deduplicates has no second effect.
// It is what to do before dead letters are sent again. Forget gives new derived
// keys instead. token is that of the record Inspect showed.
//
// ErrClaimLost reports that the record changed since it was read; ErrInProgress
// that its claim holds; ErrInvalid a store that cannot, or a key of which nothing
// is kept.
func (e *Engine) Requeue(ctx context.Context, key Digest, token Token) error {
	store, ok := As[Requeuer](e.store)
	if !ok {
		return fmt.Errorf("%w: the store cannot requeue", ErrInvalid)
	}
	rec, err := e.lookFor(ctx, &operation{digest: key})
	switch {
	case err != nil:
		return err
	case rec.State == Absent:
		return fmt.Errorf("%w: nothing is kept of the key", ErrInvalid)
	case rec.Token != token:
		return ErrClaimLost
	case rec.State == InProgress:
		return &InProgressError{RetryAfter: max(rec.Lease, 1), Lease: rec.Lease}
	}
	err = store.Requeue(ctx, key, token, e.opts.Policy.Retain)
	if err != nil && !errors.Is(err, ErrClaimLost) {
		return &StoreError{Verb: "requeue", Err: err}
	}
	return err
}
