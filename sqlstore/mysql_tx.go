package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// CompleteTx records what ibid.Prepare made, as part of tx, a transaction of the
// database that the store is in: the result is kept if tx commits, together
// with what else tx wrote, and not at all if it does not.
//
// After any error tx must be rolled back; ErrClaimLost reports that the claim
// no longer stands, or that the key was completed before: so a transaction that
// is run again, because its first COMMIT had no answer, does not make its
// writes twice. From CompleteTx until its end, tx makes those wait who would
// take the same key over: call it last.
//
// A deadlock (1213) ends a transaction, and what is written after it is committed statement by
// statement. CompleteTx refuses a transaction that has ended; it cannot undo what was
// written since. So work must not go on after an error of a statement.
func (s *MySQL) CompleteTx(ctx context.Context, tx *sql.Tx, c ibid.Completion) error {
	if len(c.Result) > s.maxResult {
		return ibid.ErrTooLarge
	}
	c.Keep.Retain, c.Keep.Remember = bounded(c.Keep.Retain), bounded(c.Keep.Remember)
	return s.applyTx(ctx, tx, c.Key, func(r *record.Record, now int64) (bool, error) {
		changed, err := r.Complete(c.Token, c.Result, c.Keep, now)
		if err == nil && !changed {
			err = fmt.Errorf("%w: completed before, by a transaction that was committed", ibid.ErrClaimLost)
		}
		return changed, err
	})
}

// CheckpointTx keeps what ibid.PrepareSteps made, as part of tx: the step state
// is kept if tx commits, together with what else tx wrote. What is said of
// CompleteTx holds here too.
func (s *MySQL) CheckpointTx(ctx context.Context, tx *sql.Tx, c ibid.Checkpoint) error {
	return s.applyTx(ctx, tx, c.Key, func(r *record.Record, now int64) (bool, error) {
		return true, r.Checkpoint(c.Token, c.Steps, now)
	})
}

// applyTx makes the change at key in the caller's transaction, which must still
// be one.
func (s *MySQL) applyTx(ctx context.Context, tx *sql.Tx, key ibid.Digest, c change) error {
	if err := s.checkOpen(ctx, tx); err != nil {
		return err
	}
	row := mysqlRow{at: time.Now()}
	err := tx.StmtContext(ctx, s.lock).QueryRowContext(ctx, key[:]).Scan(&row.turn, &row.raw, &row.now)
	if errors.Is(err, sql.ErrNoRows) {
		return ibid.ErrClaimLost
	}
	if err == nil && time.Since(row.at) > 10*time.Millisecond { // it may have waited for the lock
		err = tx.QueryRowContext(ctx, "SELECT "+mysqlClock).Scan(&row.now)
	}
	if err != nil {
		return explainMySQL(err)
	}
	row.now *= int64(time.Microsecond)
	r, err := decode(key, row.raw)
	if err != nil {
		return err
	}
	if _, err := c(&r, row.now); err != nil {
		return err
	}
	res, err := tx.StmtContext(ctx, s.update).ExecContext(ctx, max(row.turn.Int64+1, row.now), r.Gone, r.Scope[:], r.Append(nil, key), key[:], row.turn.Int64)
	if err != nil {
		return explainMySQL(err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return orLost(err)
	}
	return s.checkOpen(ctx, tx)
}

// checkOpen refuses a transaction that the server has ended: a savepoint does
// not outlive its statement there.
func (s *MySQL) checkOpen(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "SAVEPOINT ibid_open")
	if err == nil {
		_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT ibid_open")
	}
	if mysqlError(err) == mysqlNoSavepoint {
		return fmt.Errorf("the transaction has ended, by an error of one of its statements: %w", err)
	}
	return explainMySQL(err)
}
