package ibid

import (
	"context"
	"fmt"
)

// Steps, for package steps and stores: an operation of several steps keeps
// which of them finished, under its claim, so that a later attempt skips them.

// LoadSteps returns the step state that the last SaveSteps of this window
// kept, by whichever attempt; nil when there is none. ErrDamaged reports a
// state that cannot be opened.
func LoadSteps(ctx context.Context) ([]byte, error) {
	a := attemptFrom(ctx)
	if a == nil || a.Token.IsZero() {
		return nil, errNoClaim("LoadSteps")
	}
	if len(a.steps) == 0 {
		return nil, nil
	}
	_, state, err := a.engine.sealer.openAs("step state", a.Key, a.steps)
	return state, err
}

// SaveSteps replaces the step state. ErrClaimLost reports that the claim no
// longer stands: the work must stop. Any other error leaves open whether the
// state was kept.
func SaveSteps(ctx context.Context, state []byte) error {
	a := attemptFrom(ctx)
	if a == nil {
		return errNoClaim("SaveSteps")
	}
	c, err := PrepareSteps(ctx, state)
	if err != nil {
		return err
	}
	keeper, ok := As[Checkpointer](a.engine.store)
	if !ok {
		return fmt.Errorf("%w: the store keeps no steps", ErrInvalid)
	}
	limit := boundDetached(ctx, a.engine.opts.StoreTimeout)
	defer limit.end()
	return keeper.Checkpoint(limit, c.Key, c.Token, c.Steps)
}

// Checkpoint is what a store's CheckpointTx writes in the caller's own
// transaction, in place of SaveSteps.
type Checkpoint struct {
	Key   Digest
	Token Token
	Steps []byte // sealed
}

// PrepareSteps seals a step state for a store's CheckpointTx.
func PrepareSteps(ctx context.Context, state []byte) (Checkpoint, error) {
	a := attemptFrom(ctx)
	if a == nil || a.Token.IsZero() {
		return Checkpoint{}, errNoClaim("PrepareSteps")
	}
	return Checkpoint{Key: a.Key, Token: a.Token, Steps: a.engine.sealer.sealAs("step state", a.Key, kindValue, state)}, nil
}

func errNoClaim(what string) error {
	return fmt.Errorf("%w: %s: the context belongs to no work that holds a claim", ErrInvalid, what)
}
