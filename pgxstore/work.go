package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// Transactional mode in PostgreSQL, as a policy: an advisory lock of the
// transaction is the claim, and dies with the session. BEGIN, the lock and the read
// travel together, as do the record and COMMIT: a first run costs two round trips beside
// those of the work. Where no record stands, one is inserted at the end, complete; the unique
// key decides if someone was there all the same.

// workingTx is a transaction of the work.
type workingTx struct {
	store  *Store
	conn   *pgxpool.Conn
	tx     pgx.Tx
	key    ibid.Digest
	claim  ibid.Claim
	fence  int64     // of a claim that no row stands for: the server's clock, in microseconds
	read   time.Time // when fence was read, by this process's clock
	stands bool      // a row is claimed in this transaction, and is to be completed
}

// BeginTx implements ibid.TxStore. It begins with the pool's own isolation level.
// The lock is of the session's database: the same key in another
// table, or another database, is another.
func (s *Store) BeginTx(ctx context.Context, key ibid.Digest, claim ibid.Claim, wait time.Duration) (ibid.Tx, ibid.Record, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, ibid.Record{}, err
	}
	t := &workingTx{store: s, conn: conn, key: key, claim: claim}
	rec, granted, err := t.begin(ctx, wait)
	if err != nil || !granted {
		_ = t.Rollback(ctx) // a connection that does not answer is closed
		return nil, rec, err
	}
	return t, rec, nil
}

// begin opens the transaction and claims the key in it.
func (t *workingTx) begin(ctx context.Context, wait time.Duration) (rec ibid.Record, granted bool, err error) {
	var found pgsql.Under
	look := t.store.queries.LookTx(t.key, &found)
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{})
	batch.Queue(look.SQL, look.Args...)
	results := t.conn.SendBatch(ctx, &batch)
	t.tx = results.(interface{ Tx() pgx.Tx }).Tx()
	if _, err = results.Exec(); err == nil {
		_, err = look.Done(results.QueryRow().Scan(look.Dest...))
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return ibid.Record{}, false, err
	}
	if rec = found.Record; taken(rec) {
		return rec, false, nil
	}
	if !found.Locked {
		locked, err := t.wait(ctx, wait)
		if err != nil {
			return ibid.Record{}, false, err
		}
		if !locked {
			return ibid.Record{State: ibid.InProgress, Fingerprint: t.claim.Fingerprint}, false, nil
		}
		// What the other left behind.
		if err = pgsql.AskIn(ctx, driver{t.tx}, look); err != nil {
			return ibid.Record{}, false, err
		}
		if rec = found.Record; taken(rec) {
			return rec, false, nil
		}
	}
	if found.Stands {
		rec, err = t.take(ctx, t.tx)
		return rec, rec.OwnedBy(t.claim.Token), err
	}
	t.fence, t.read = found.Now, time.Now()
	return ibid.Record{
		State: ibid.InProgress, Token: t.claim.Token, Fence: t.fence, Attempt: 1, Fingerprint: t.claim.Fingerprint,
		Scope: t.claim.Scope, Label: t.claim.Label, Lease: t.claim.Lease, Window: t.claim.Lease + t.claim.Window,
	}, true, nil
}

// taken reports whether no claim takes r.
func taken(r ibid.Record) bool {
	return r.State == ibid.InProgress || r.State == ibid.Completed || r.State == ibid.Expired
}

// take claims the row that stands, if it may be.
func (t *workingTx) take(ctx context.Context, tx querier) (rec ibid.Record, err error) {
	t.stands = true
	err = pgsql.AskIn(ctx, driver{tx}, t.store.queries.Begin(t.key, t.claim, &rec))
	return rec, err
}

// wait waits for the lock, up to d. The server does the waiting, and gives up by
// itself, also when this process has gone.
func (t *workingTx) wait(ctx context.Context, d time.Duration) (locked bool, err error) {
	if d <= 0 {
		return false, nil
	}
	var before string
	if err := t.tx.QueryRow(ctx, pgsql.ReadLockTimeout).Scan(&before); err != nil {
		return false, err
	}
	var batch pgx.Batch
	batch.Queue(pgsql.SetLockTimeout, pgsql.LockTimeout(d))
	batch.Queue(pgsql.Lock, t.store.queries.LockKey(t.key))
	batch.Queue(pgsql.SetLockTimeout, before) // the work has its own
	err = t.tx.SendBatch(ctx, &batch).Close()
	if pgsql.LockTimedOut(err) {
		return false, nil
	}
	return err == nil, err
}

// Context implements ibid.Tx.
func (t *workingTx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, pgx.Tx(workTx{t.tx}))
}

var errPoisoned = errors.New("pgxstore: the transaction has ended during the work")

// Commit implements ibid.Tx. A COMMIT that the server made a ROLLBACK is an error.
func (t *workingTx) Commit(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	if t.conn == nil {
		return pgx.ErrTxClosed
	}
	defer func() { _ = t.Rollback(ctx) }()
	var batch pgx.Batch
	switch {
	case len(result) > pgsql.MaxResult:
		return ibid.ErrTooLarge
	case undo:
		// The lock goes with the transaction. Who gets it now meets the unique
		// key, as this one does where the other is faster.
		batch.Queue("ROLLBACK")
		batch.Queue("BEGIN")
	case t.conn.Conn().PgConn().TxStatus() == 'I': // what follows would commit by itself
		return errPoisoned
	}
	if t.stands {
		if err := t.complete(ctx, &batch, result, keep); err != nil {
			return t.failed(err)
		}
	} else {
		now := t.fence + time.Since(t.read).Microseconds()
		query, args := t.store.queries.Insert(t.key, t.claim, t.fence, now, result, keep)
		batch.Queue(query, args...)
	}
	batch.Queue("COMMIT")
	results := t.conn.SendBatch(ctx, &batch)
	var tag pgconn.CommandTag
	var err error
	for range batch.Len() {
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return t.failed(err)
	}
	if tag.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// complete completes the row that was claimed in this transaction, or is claimed
// anew after the work was undone. No batch would find out before its COMMIT
// that it cannot.
func (t *workingTx) complete(ctx context.Context, batch *pgx.Batch, result []byte, keep ibid.Keep) error {
	if batch.Len() > 0 {
		if err := t.conn.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		*batch = pgx.Batch{}
		if rec, err := t.take(ctx, t.conn); err != nil || !rec.OwnedBy(t.claim.Token) {
			return errors.Join(err, ibid.ErrClaimLost)
		}
	}
	return pgsql.AskIn(ctx, driver{t.conn}, t.store.queries.Complete(t.key, t.claim.Token, result, keep))
}

// failed says what an error of the last statements means. An error that the server
// reports of one of them, and of no more, undid all.
func (t *workingTx) failed(err error) error {
	if errors.Is(err, ibid.ErrClaimLost) || errors.Is(err, ibid.ErrDamaged) {
		return err
	}
	var said *pgconn.PgError
	switch {
	case !errors.As(err, &said) || said.SeverityUnlocalized != "ERROR":
		return fmt.Errorf("%w: %w", ibid.ErrCommitUnknown, err)
	case t.Again(err), pgsql.Duplicate(err) && said.ConstraintName == t.store.queries.Constraint():
		return fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	}
	return err
}

// Rollback implements ibid.Tx.
func (t *workingTx) Rollback(ctx context.Context) error {
	if t.conn == nil {
		return nil
	}
	conn := t.conn
	t.conn = nil
	var err error
	if status := conn.Conn().PgConn().TxStatus(); status != 'I' && !conn.Conn().IsClosed() {
		_, err = conn.Exec(ctx, "ROLLBACK")
	}
	if err != nil {
		_ = conn.Conn().Close(ctx) // the server undoes it when it notices
	}
	conn.Release()
	return err
}

// Again implements ibid.Tx.
func (t *workingTx) Again(err error) bool { return pgsql.Conflict(err) }
