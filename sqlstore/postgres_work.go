package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// Transactional mode in PostgreSQL, as in package pgxstore: an advisory lock of the
// transaction is the claim, and the record is written last. database/sql sends one
// statement at a time, so that a first run costs six round trips beside
// those of the work, where pgxstore needs two.

// postgresTx is a transaction of the work, on a connection of its own.
type postgresTx struct {
	store *Postgres
	conn  *sql.Conn
	tx    *sql.Tx
	key   ibid.Digest
	claim ibid.Claim
	fence int64     // of a claim that no row stands for: the server's clock, in microseconds
	read  time.Time // when fence was read, by this process's clock
	// stands is set when a row is claimed in this transaction, and is to be completed.
	stands bool
}

// BeginTx implements ibid.TxStore. It begins with the isolation level of db's
// connections.
func (s *Postgres) BeginTx(ctx context.Context, key ibid.Digest, claim ibid.Claim, wait time.Duration) (ibid.Tx, ibid.Record, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, ibid.Record{}, err
	}
	t := &postgresTx{store: s, conn: conn, key: key, claim: claim}
	// Its caller's end ends no transaction that may be committing.
	if t.tx, err = conn.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
		return nil, ibid.Record{}, errors.Join(err, conn.Close())
	}
	rec, granted, err := t.begin(ctx, wait)
	if err == nil && granted {
		_, err = t.tx.ExecContext(ctx, "SAVEPOINT ibid")
	}
	if err != nil || !granted {
		return nil, rec, errors.Join(err, t.Rollback(ctx))
	}
	return t, rec, nil
}

// begin claims the key.
func (t *postgresTx) begin(ctx context.Context, wait time.Duration) (rec ibid.Record, granted bool, err error) {
	var found pgsql.Under
	look := t.store.queries.LookTx(t.key, &found)
	locked := false
	for {
		if err := pgsql.AskIn(ctx, runner{t.tx}, look); err != nil {
			return ibid.Record{}, false, err
		}
		switch found.Record.State {
		case ibid.InProgress, ibid.Completed, ibid.Expired:
			return found.Record, false, nil
		}
		if found.Locked || locked {
			break
		}
		if locked, err = t.wait(ctx, wait); err != nil || !locked {
			return ibid.Record{State: ibid.InProgress, Fingerprint: t.claim.Fingerprint}, false, err
		}
	}
	if found.Stands {
		t.stands = true
		err := pgsql.AskIn(ctx, runner{t.tx}, t.store.queries.Begin(t.key, t.claim, &rec))
		return rec, rec.OwnedBy(t.claim.Token), err
	}
	t.fence, t.read = found.Now, time.Now()
	return ibid.Record{
		State: ibid.InProgress, Token: t.claim.Token, Fence: t.fence, Attempt: 1, Fingerprint: t.claim.Fingerprint,
		Scope: t.claim.Scope, Label: t.claim.Label, Lease: t.claim.Lease, Window: t.claim.Lease + t.claim.Window,
	}, true, nil
}

// wait waits for the lock, up to d.
func (t *postgresTx) wait(ctx context.Context, d time.Duration) (locked bool, err error) {
	if d <= 0 {
		return false, nil
	}
	var before string
	if err := t.tx.QueryRowContext(ctx, pgsql.ReadLockTimeout).Scan(&before); err != nil {
		return false, err
	}
	for _, st := range []struct {
		query string
		arg   any
	}{
		{pgsql.SetLockTimeout, pgsql.LockTimeout(d)},
		{pgsql.Lock, t.store.queries.LockKey(t.key)},
		{pgsql.SetLockTimeout, before}, // the work has its own
	} {
		if _, err = t.tx.ExecContext(ctx, st.query, st.arg); err != nil {
			break
		}
	}
	if pgsql.LockTimedOut(err) {
		return false, nil
	}
	return err == nil, err
}

// Context implements ibid.Tx.
func (t *postgresTx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, t.tx)
}

// Commit implements ibid.Tx.
func (t *postgresTx) Commit(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	if t.tx == nil {
		return sql.ErrTxDone
	}
	defer func() { _ = t.Rollback(ctx) }()
	if len(result) > pgsql.MaxResult {
		return ibid.ErrTooLarge
	}
	query := "RELEASE SAVEPOINT ibid" // fails where the work has ended the transaction
	if undo {
		query = "ROLLBACK TO SAVEPOINT ibid"
	}
	if _, err := t.tx.ExecContext(ctx, query); err != nil {
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	if err := t.put(ctx, result, keep); err != nil {
		if pgsql.Conflict(err) || pgsql.Duplicate(err) {
			err = fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
		}
		return err
	}
	_, err := t.tx.ExecContext(ctx, "COMMIT") // Tx.Commit has no deadline
	switch {
	case err == nil:
		t.store.watch.wake([]ibid.Digest{t.key})
		return nil
	case pgsql.Conflict(err):
		return fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	case pgsql.Undone(err):
		return err
	}
	return fmt.Errorf("%w: %w", ibid.ErrCommitUnknown, err)
}

// put writes the record.
func (t *postgresTx) put(ctx context.Context, result []byte, keep ibid.Keep) error {
	if t.stands {
		return pgsql.AskIn(ctx, runner{t.tx}, t.store.queries.Complete(t.key, t.claim.Token, result, keep))
	}
	now := t.fence + time.Since(t.read).Microseconds()
	query, args := t.store.queries.Insert(t.key, t.claim, t.fence, now, result, keep)
	_, err := t.tx.ExecContext(ctx, query, args...)
	return err
}

// Rollback implements ibid.Tx.
func (t *postgresTx) Rollback(context.Context) error {
	if t.tx == nil {
		return nil
	}
	err := t.tx.Rollback()
	t.tx = nil
	if err != nil {
		_ = closeConn(t.conn) // the server undoes it when it notices
		return err
	}
	return t.conn.Close()
}

// Again implements ibid.Tx.
func (t *postgresTx) Again(err error) bool { return pgsql.Conflict(err) }

// InTx is what steps.StepTx asks for: it runs work in a transaction, writes the
// checkpoint that work returns, and commits. Work finds the transaction in its
// context too.
func (s *Postgres) InTx(ctx context.Context, work func(context.Context, *sql.Tx) (ibid.Checkpoint, error)) error {
	tx, err := s.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // also when the work panics; nothing after a commit
	_, err = tx.ExecContext(ctx, "SAVEPOINT ibid")
	if err != nil {
		return err
	}
	c, err := work(context.WithValue(ctx, txKey{}, tx), tx)
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err == nil {
		if _, err = tx.ExecContext(detached, "RELEASE SAVEPOINT ibid"); err != nil {
			return fmt.Errorf("%w: %w", errPoisoned, err)
		}
		err = s.CheckpointTx(detached, tx, c)
	}
	if err == nil {
		if _, err = tx.ExecContext(detached, "COMMIT"); err != nil && !pgsql.Undone(err) {
			return fmt.Errorf("%w: %w", ibid.ErrCommitUnknown, err)
		}
	}
	if pgsql.Conflict(err) {
		err = fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	}
	return err
}
