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

// Transactional mode in SQLite, as a policy: the file has one write lock, so a
// transaction holds up every other writer from BeginTx to its end, and at most one
// runs in the file. Those of this process queue up, in their order. The claim is
// written by nobody: the lock is the claim, and dies with the process. The
// record is written once, just before COMMIT.

// sqliteTx is a transaction of the work, on the connection that writes.
type sqliteTx struct {
	store  *SQLite
	tx     *sql.Tx
	key    ibid.Digest
	token  ibid.Token
	record record.Record // as claimed
	stands bool          // a row is there to be replaced
	ended  bool
}

// BeginTx implements ibid.TxStore. It waits for the file's write lock as long as
// wait and BusyTimeout allow, whichever is longer: whose it is, another
// process does not tell. A key that a transaction of this process holds
// is InProgress after wait; a lock held by another process for longer is an error.
//
// The work must write nothing through another connection of the file, and ask no
// engine of this store: both would wait for this transaction.
func (s *SQLite) BeginTx(ctx context.Context, key ibid.Digest, claim ibid.Claim, wait time.Duration) (ibid.Tx, ibid.Record, error) {
	r, err := s.look(ctx, key)
	if err != nil {
		return nil, ibid.Record{}, err
	}
	now := clock()
	if asked := r; !asked.Begin(claim, now) {
		return nil, r.View(now), nil
	}
	limit, ours := max(wait, s.opts.BusyTimeout), s.inTx(key)
	if ours {
		limit = max(wait, 0)
	}
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, limit)
	leads, err := s.queue.enter(waiting, &call{})
	cancel()
	switch {
	case leads:
	case ctx.Err() != nil:
		return nil, ibid.Record{}, ctx.Err()
	case ours || s.inTx(key):
		return nil, ibid.Record{State: ibid.InProgress, Fingerprint: claim.Fingerprint}, nil
	default:
		return nil, ibid.Record{}, fmt.Errorf("other writes of this process have held the file for longer than SQLiteOptions.BusyTimeout allows: %w", err)
	}
	if err = ctx.Err(); err == nil {
		t := &sqliteTx{store: s, key: key, token: claim.Token}
		err = retryBusy(ctx, limit-time.Since(began), func() error { return s.openTx(ctx, t) })
		if err == nil {
			return t.claim(claim)
		}
	}
	s.queue.leave(nil)
	return nil, ibid.Record{}, explain(err)
}

// inTx reports whether a transaction of this process holds key.
func (s *SQLite) inTx(key ibid.Digest) bool {
	held := s.held.Load()
	return held != nil && *held == key
}

// openTx begins a transaction and takes the write lock. Nothing is begun when
// it fails.
func (s *SQLite) openTx(ctx context.Context, t *sqliteTx) error {
	if s.writer == nil {
		w, err := s.openWriter(ctx)
		if err != nil {
			return err
		}
		s.writer = w
	}
	// Its caller's end ends no transaction that may be committing.
	tx, err := s.writer.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err == nil {
		// BEGIN is IMMEDIATE only where the driver was told so; a statement
		// that may write takes the lock in any case.
		_, err = tx.ExecContext(ctx, s.queries.lock, t.key[:])
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err != nil {
		if !isBusy(err) {
			s.discard()
		}
		return err
	}
	t.tx = tx
	return nil
}

// claim decides, under the write lock.
func (t *sqliteTx) claim(c ibid.Claim) (ibid.Tx, ibid.Record, error) {
	raw, err := getRecord(t.store.writer.get, t.key)
	if err == nil {
		t.record, err = decode(t.key, raw)
	}
	if err != nil {
		t.end(t.tx.Rollback())
		return nil, ibid.Record{}, explain(err)
	}
	t.stands = raw != nil
	now := clock()
	granted := t.record.Begin(c, now)
	view := t.record.View(now)
	if !granted {
		t.end(t.tx.Rollback())
		return nil, view, nil
	}
	if _, err := t.tx.Exec("SAVEPOINT ibid"); err != nil {
		t.end(errors.Join(err, t.tx.Rollback()))
		return nil, ibid.Record{}, explain(err)
	}
	t.store.held.Store(&t.key)
	return t, view, nil
}

// end gives the connection back, and drops it where err leaves a doubt.
func (t *sqliteTx) end(err error) {
	t.ended = true
	t.store.held.Store(nil)
	if err != nil {
		t.store.discard()
	}
	t.store.queue.leave(nil)
}

// Context implements ibid.Tx.
func (t *sqliteTx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, t.tx)
}

var errPoisoned = errors.New("the transaction has ended during the work, by an error of one of its statements or by the work itself")

// Commit implements ibid.Tx.
func (t *sqliteTx) Commit(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	if t.ended {
		return sql.ErrTxDone
	}
	// A conflict or an interrupt can end the transaction behind the back of work
	// that swallows the error: what it did since would be committed without
	// what it did before. The savepoint is gone then.
	query := "RELEASE ibid"
	if undo {
		query = "ROLLBACK TO ibid"
	}
	if _, err := t.tx.ExecContext(ctx, query); err != nil {
		t.end(errors.Join(err, t.tx.Rollback()))
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	_, err := t.record.Complete(t.token, result, keep, clock())
	if err == nil {
		err = t.put(ctx)
	}
	if err != nil {
		t.end(errors.Join(err, t.tx.Rollback()))
		return explain(err)
	}
	if err := t.tx.Commit(); err != nil {
		t.end(err)
		return fmt.Errorf("%w: %w", ibid.ErrCommitUnknown, explain(err))
	}
	t.end(nil)
	t.store.watch.wake([]ibid.Digest{t.key})
	return nil
}

// put writes the record, in the place of the one that was read.
func (t *sqliteTx) put(ctx context.Context) error {
	r, w := &t.record, t.store.writer
	w.buf = r.Append(w.buf[:0], t.key)
	if t.stands {
		res, err := t.tx.ExecContext(ctx, t.store.queries.update, r.Gone, r.Scope[:], w.buf, t.key[:])
		return oneRow(res, err)
	}
	res, err := t.tx.ExecContext(ctx, t.store.queries.insert, t.key[:], r.Gone, r.Scope[:], w.buf)
	return oneRow(res, err)
}

// oneRow reports a record that is no longer as it was read: the work has changed
// the table of the store.
func oneRow(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(ibid.ErrClaimLost, err)
	}
	return nil
}

// Rollback implements ibid.Tx.
func (t *sqliteTx) Rollback(context.Context) error {
	if t.ended {
		return nil
	}
	err := t.tx.Rollback()
	t.end(err)
	return err
}

// Again implements ibid.Tx. A transaction that holds the write lock from its
// beginning meets no conflict.
func (t *sqliteTx) Again(error) bool { return false }
