package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// Transactor is a store that keeps a step in the transaction of its effect, as those
// of packages sqlstore and pgxstore do. TX is the transaction that work gets.
type Transactor[TX any] interface {
	// InTx runs work in a transaction, writes the checkpoint that it returns,
	// checked against the claim, and commits, detached from ctx. Nothing is
	// committed when it fails, but for ibid.ErrCommitUnknown. ibid.ErrTxAgain
	// reports a serialization failure or a deadlock, ibid.ErrClaimLost that the
	// claim no longer stands.
	InTx(ctx context.Context, work func(context.Context, TX) (ibid.Checkpoint, error)) error
}

// txTries bounds how often the transaction of a step is run in one attempt.
const txTries = 4

// StepTx runs fn inside a transaction of db, the store of the engine, unless an earlier
// attempt finished the step, and returns its result. What fn writes there, the step's
// result and the check of the claim are committed together: the step is done
// or not, and never maybe. fn does nothing else than write in tx, since it runs
// again after a serialization failure.
//
// Where it stays unknown whether COMMIT happened, the attempt ends with an
// unknown outcome; the next one finds the step finished or not.
func StepTx[TX, T any](ctx context.Context, op *Op, db Transactor[TX], name string, fn func(context.Context, TX) (T, error)) (T, error) {
	var v T
	done, _, err := op.enter(ctx, name, &v)
	if err != nil || done {
		return v, err
	}
	op.mu.Lock() // no other step is kept between its checkpoint and this commit
	defer op.mu.Unlock()
	st := op.state.find(name)
	for try := 1; ; try++ {
		var c ibid.Checkpoint
		err = db.InTx(ctx, func(ctx context.Context, tx TX) (ibid.Checkpoint, error) {
			var err error
			if v, err = fn(ctx, tx); err != nil {
				return c, err
			}
			if st.result, err = op.codec.Marshal(v); err != nil {
				return c, err
			}
			st.done = true
			c, err = ibid.PrepareSteps(ctx, op.state.append(nil))
			st.done = false
			return c, err
		})
		if errors.Is(err, ibid.ErrCommitUnknown) {
			err = lookUp(ctx, c, err)
		}
		if err == nil {
			st.done = true
			return v, nil
		}
		if !errors.Is(err, ibid.ErrTxAgain) || try == txTries {
			return *new(T), err
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
}

// lookUp returns nil when c was committed after all.
func lookUp(ctx context.Context, c ibid.Checkpoint, cause error) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		kept, err := ibid.StepsKept(ctx, c)
		if kept {
			return nil
		}
		if pause > time.Second {
			ibid.EffectStarted(ctx) // it may still be committed
			return fmt.Errorf("steps: %w", errors.Join(cause, err))
		}
		time.Sleep(pause)
	}
}
