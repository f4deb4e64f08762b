package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// InTx is what steps.StepTx asks for: it runs work in a transaction, writes the
// checkpoint that work returns, and commits. It waits for the write lock, and holds
// up every other writer, as BeginTx does; work finds the transaction in its
// context too.
func (s *SQLite) InTx(ctx context.Context, work func(context.Context, *sql.Tx) (ibid.Checkpoint, error)) error {
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, s.opts.BusyTimeout)
	leads, err := s.queue.enter(waiting, &call{})
	cancel()
	if !leads {
		return fmt.Errorf("other writes of this process have held the file for too long: %w", err)
	}
	t := &sqliteTx{store: s}
	err = retryBusy(ctx, s.opts.BusyTimeout-time.Since(began), func() error { return s.openTx(ctx, t) })
	if err != nil {
		s.queue.leave(nil)
		return explain(err)
	}
	defer func() { _ = t.Rollback(ctx) }() // also when the work panics; nothing after a commit
	if _, err := t.tx.ExecContext(ctx, "SAVEPOINT ibid"); err != nil {
		return explain(err)
	}
	c, err := work(t.Context(ctx), t.tx)
	if err != nil {
		return err
	}
	detached := context.WithoutCancel(ctx)
	if _, err := t.tx.ExecContext(detached, "RELEASE ibid"); err != nil {
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	if err := s.CheckpointTx(detached, t.tx, c); err != nil {
		return err
	}
	err = t.tx.Commit()
	t.end(err)
	if err != nil {
		return errors.Join(ibid.ErrCommitUnknown, explain(err))
	}
	return nil
}
