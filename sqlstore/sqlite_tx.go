package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// CompleteTx records what ibid.Prepare made, as part of tx, a transaction of the
// database that the store is in: the result is kept if tx commits, together with
// what else tx wrote, and not at all if it does not.
//
//	tx, err := db.BeginTx(ctx, nil) // opened with _txlock=immediate
//	…                               // the effect
//	c, err := ibid.Prepare(ctx, payment)
//	err = store.CompleteTx(ctx, tx, c)
//	err = tx.Commit()
//
// After any error tx must be rolled back; ErrClaimLost reports that the claim no
// longer stands, or was completed already: a transaction that is run again
// after the reply to its COMMIT was lost must not write its effect twice. From CompleteTx until its end tx blocks every writer of the file,
// other claims included: call it last. A transaction that has read before must have begun
// as IMMEDIATE, or a writer that came between is in its way.
func (s *SQLite) CompleteTx(ctx context.Context, tx *sql.Tx, c ibid.Completion) error {
	return s.changeTx(ctx, tx, c.Key, func(r *record.Record, now int64) (bool, error) {
		changed, err := r.Complete(c.Token, c.Result, c.Keep, now)
		if err == nil && !changed { // an earlier transaction of this attempt was committed after all
			err = ibid.ErrClaimLost
		}
		return changed, err
	})
}

// CheckpointTx keeps what ibid.PrepareSteps made, as part of tx: the step state
// is kept if tx commits, together with what else tx wrote. Everything said of
// CompleteTx holds here too.
func (s *SQLite) CheckpointTx(ctx context.Context, tx *sql.Tx, c ibid.Checkpoint) error {
	return s.changeTx(ctx, tx, c.Key, func(r *record.Record, now int64) (bool, error) {
		return true, r.Checkpoint(c.Token, c.Steps, now)
	})
}

// changeTx applies change to the record at key, in the caller's transaction.
func (s *SQLite) changeTx(ctx context.Context, tx *sql.Tx, key ibid.Digest, change func(*record.Record, int64) (bool, error)) error {
	if err := s.checkSync(ctx, tx); err != nil {
		return err
	}
	// The first statement writes, so that the record is read under the lock.
	res, err := tx.ExecContext(ctx, s.queries.lock, key[:])
	if err != nil {
		if isBusy(err) {
			err = fmt.Errorf("another connection holds the write lock, or wrote since the transaction read: begin it as IMMEDIATE, with a busy timeout: %w", err)
		}
		return explain(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return orLost(err)
	}
	var raw []byte
	if err := tx.QueryRowContext(ctx, s.queries.get, key[:]).Scan(&raw); err != nil {
		return explain(err)
	}
	r, err := decode(key, raw)
	if err != nil {
		return err
	}
	changed, err := change(&r, clock())
	if err != nil || !changed {
		return err
	}
	_, err = tx.ExecContext(ctx, s.queries.update, r.Gone, r.Scope[:], r.Append(nil, key), key[:])
	return explain(err)
}

func orLost(err error) error {
	if err == nil {
		err = ibid.ErrClaimLost
	}
	return explain(err)
}

// checkSync refuses a transaction whose commit would promise less than the
// store does.
func (s *SQLite) checkSync(ctx context.Context, tx *sql.Tx) error {
	var sync int
	if err := tx.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&sync); err != nil {
		return explain(err)
	}
	if want := s.opts.Synchronous; sync < pragmaFull && want != SyncNormal {
		return fmt.Errorf("%w: the transaction's connection has synchronous %d, the store promises %v: open the database with synchronous FULL", ibid.ErrInvalid, sync, want)
	}
	return nil
}
