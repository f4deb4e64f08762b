package ibid

import (
	"bytes"
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
	if a == nil || a.Token.IsZero() || a.op.tx != nil {
		return nil, errNoClaim("LoadSteps")
	}
	a.mu.Lock()
	steps := a.steps
	a.mu.Unlock()
	return a.engine.openSteps(a.Key, steps)
}

// OpenSteps is LoadSteps for an operation that List or Inspect returned.
func (e *Engine) OpenSteps(op Operation) ([]byte, error) {
	return e.openSteps(op.Key, op.Record.Steps)
}

func (e *Engine) openSteps(key Digest, steps []byte) ([]byte, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	_, state, err := e.sealer.openAs("step state", key, steps)
	return state, err
}

// EngineFrom returns the engine that runs the work of ctx; false outside of
// work.
func EngineFrom(ctx context.Context) (*Engine, bool) {
	if a := attemptFrom(ctx); a != nil {
		return a.engine, true
	}
	return nil, false
}

// CallFrom returns the key and the fingerprint under which the work of ctx runs,
// for a call that goes on with it later; false outside of work.
func CallFrom(ctx context.Context) (Call, bool) {
	if a := attemptFrom(ctx); a != nil {
		return Call{Key: a.op.key, Fingerprint: a.op.fingerprint}, true
	}
	return Call{}, false
}

// Codec returns Options.Codec.
func (e *Engine) Codec() Codec { return e.opts.Codec }

// Seals reports whether Options.Seal has a key.
func (e *Engine) Seals() bool { return e.sealer.aeads != nil }

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
	if err := keeper.Checkpoint(limit, c.Key, c.Token, c.Steps); err != nil {
		return err
	}
	a.mu.Lock()
	a.steps = c.Steps
	a.mu.Unlock()
	return nil
}

// StepsKept reports whether the store has c: what became of a CheckpointTx whose
// COMMIT was not answered. It says nothing of a transaction that may still
// commit.
func StepsKept(ctx context.Context, c Checkpoint) (bool, error) {
	a := attemptFrom(ctx)
	if a == nil {
		return false, errNoClaim("StepsKept")
	}
	rec, err := a.engine.look(ctx, c.Key)
	return err == nil && rec.Token == c.Token && bytes.Equal(rec.Steps, c.Steps), err
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
	if a == nil || a.Token.IsZero() || a.op.tx != nil {
		return Checkpoint{}, errNoClaim("PrepareSteps")
	}
	return Checkpoint{Key: a.Key, Token: a.Token, Steps: a.engine.sealer.sealAs("step state", a.Key, kindValue, state)}, nil
}

func errNoClaim(what string) error {
	return fmt.Errorf("%w: %s: the context belongs to no work that holds a claim of its own", ErrInvalid, what)
}
