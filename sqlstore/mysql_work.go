package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// Transactional mode in MySQL, as a policy: the transaction begins by inserting
// the claim, and the lock of that row is what others wait for; it dies with the
// session. Inserting comes first, since a locked read of a row that is not there
// locks the gap, in which two then wait for each other. Where a row stands, the insert
// counts its turn up instead, and so locks it. The last statement before COMMIT replaces
// the claim by the result, and must find the claim as this transaction wrote it.

// mysqlTx is a transaction of the work.
type mysqlTx struct {
	*mysqlSession
	key    ibid.Digest
	token  ibid.Token
	record record.Record // as claimed
	turn   int64         // of the claim
	ended  bool
}

// BeginTx implements ibid.TxStore. The transaction has the isolation level of
// db's connections.
//
// A statement that fails in it refuses the commit, whatever the work makes of the
// error, unless all writes are undone. So does one that commits by itself, as
// CREATE TABLE does: what it committed stands, the claim too, and lapses.
// On MySQL, other than on MariaDB, a wait is at least a second.
func (s *MySQL) BeginTx(ctx context.Context, key ibid.Digest, claim ibid.Claim, wait time.Duration) (ibid.Tx, ibid.Record, error) {
	claim.Lease, claim.Window = bounded(claim.Lease), bounded(claim.Window)
	began := time.Now()
	for n := 0; ; n++ {
		tx, rec, err := s.beginTx(ctx, key, claim, wait-time.Since(began))
		switch {
		case err == nil && tx != nil:
			return tx, rec, nil
		case mysqlError(err) != mysqlDeadlock || n == mysqlTries: // waiting inserts meet when the first is rolled back
			return nil, rec, explainMySQL(err)
		}
		if err := rest(ctx, n+1); err != nil {
			return nil, ibid.Record{}, err
		}
	}
}

func (s *MySQL) beginTx(ctx context.Context, key ibid.Digest, claim ibid.Claim, wait time.Duration) (*mysqlTx, ibid.Record, error) {
	row, err := s.get(ctx, key)
	if err != nil {
		return nil, ibid.Record{}, err
	}
	r, err := decode(key, row.raw)
	if err != nil {
		return nil, ibid.Record{}, err
	}
	asked := r
	if !asked.Begin(claim, row.now) {
		return nil, r.View(row.now), nil
	}
	session, err := s.session(ctx)
	if err != nil {
		return nil, ibid.Record{}, err
	}
	t := &mysqlTx{mysqlSession: session, key: key, token: claim.Token}
	rec, granted, err := t.claim(ctx, claim, row.now, wait)
	if err != nil || !granted {
		_ = t.Rollback(ctx) // a connection that does not answer is closed
		return nil, rec, err
	}
	return t, rec, nil
}

// claim inserts the claim as it is granted where nothing stands, and decides
// again under the row's lock where something does, or where it waited.
func (t *mysqlTx) claim(ctx context.Context, c ibid.Claim, now int64, wait time.Duration) (rec ibid.Record, granted bool, err error) {
	t.record.Begin(c, now)
	t.turn = now
	inserted, waited, err := t.insert(ctx, wait)
	if mysqlError(err) == mysqlLockTimeout {
		return ibid.Record{State: ibid.InProgress, Fingerprint: c.Fingerprint}, false, nil
	}
	if err != nil {
		return ibid.Record{}, false, err
	}
	if !inserted || waited {
		t.record = record.Record{}
		if now, err = t.decide(ctx, c, inserted); err != nil || t.record.Token != c.Token || !t.record.Held {
			return t.record.View(now), false, err
		}
	}
	if waited { // the tries that ended in vain were no statements of the work
		if _, err = t.tx.ExecContext(ctx, "SET "+t.store.countRollbacks()); err != nil {
			return ibid.Record{}, false, err
		}
	}
	_, err = t.tx.ExecContext(ctx, "SAVEPOINT ibid")
	return t.record.View(now), err == nil, err
}

// decide claims the row that this transaction has locked, if it may be; one that
// it inserted itself counts for nothing.
func (t *mysqlTx) decide(ctx context.Context, c ibid.Claim, inserted bool) (now int64, err error) {
	var turn int64
	var raw []byte
	if err := t.tx.StmtContext(ctx, t.store.lock).QueryRowContext(ctx, t.key[:]).Scan(&turn, &raw, &now); err != nil {
		return 0, err
	}
	now *= int64(time.Microsecond)
	if !inserted {
		if t.record, err = decode(t.key, raw); err != nil {
			return now, err
		}
	}
	if !t.record.Begin(c, now) {
		return now, nil
	}
	t.turn = turn
	return now, t.put(ctx, now)
}

// insert inserts the claim, or counts up the turn of the row that stands. Either
// locks the row. It waits for another transaction's lock.
func (t *mysqlTx) insert(ctx context.Context, wait time.Duration) (inserted, waited bool, err error) {
	args := []any{t.key[:], t.turn, t.record.Gone, t.record.Scope[:], t.record.Append(nil, t.key)}
	try := func() error {
		res, err := t.tx.StmtContext(ctx, t.store.take).ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		inserted = n == 1 // 2 where a row stands, whether found or changed rows are counted
		return err
	}
	if t.store.mariaDB {
		if err = try(); mysqlError(err) != mysqlLockTimeout || wait <= 0 {
			return inserted, false, err
		}
	}
	end := time.Now().Add(wait)
	if seconds := int(wait / time.Second); seconds > 0 || !t.store.mariaDB {
		err = t.patiently(ctx, max(seconds, 1), args, &inserted)
	}
	for n := 1; t.store.mariaDB && mysqlError(err) == mysqlLockTimeout && time.Now().Before(end); n++ {
		if err = rest(ctx, min(n, 5)); err == nil {
			err = try()
		}
	}
	return inserted, true, err
}

// patiently is insert with the server waiting for seconds. The setting is that
// of the session, and the work's statements get back their own.
func (t *mysqlTx) patiently(ctx context.Context, seconds int, args []any, inserted *bool) error {
	_, err := t.tx.ExecContext(ctx, fmt.Sprintf("SET @ibid_wait = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = %d", seconds))
	if err != nil {
		return err
	}
	res, err := t.tx.ExecContext(ctx, t.store.sql(mysqlTake), args...)
	var n int64
	if err == nil {
		n, err = res.RowsAffected()
		*inserted = n == 1
	}
	if _, e := t.tx.ExecContext(ctx, "SET innodb_lock_wait_timeout = @ibid_wait"); e != nil {
		return e
	}
	return err
}

const mysqlTake = "INSERT INTO TABLE (`key`, turn, gone, scope, record) VALUES (?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE turn = turn + 1"

// put replaces the record in the turn that it was locked in.
func (t *mysqlTx) put(ctx context.Context, now int64) error {
	r, turn := &t.record, max(t.turn+1, now)
	res, err := t.tx.StmtContext(ctx, t.store.update).ExecContext(ctx, turn, r.Gone, r.Scope[:], r.Append(nil, t.key), t.key[:], t.turn)
	t.turn = turn
	return oneRow(res, err)
}

// Context implements ibid.Tx.
func (t *mysqlTx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, t.tx)
}

// Commit implements ibid.Tx.
func (t *mysqlTx) Commit(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	if t.ended {
		return sql.ErrTxDone
	}
	if len(result) > t.store.maxResult {
		_ = t.Rollback(ctx)
		return ibid.ErrTooLarge
	}
	err := t.complete(ctx, result, keep, undo)
	if err != nil {
		_ = t.Rollback(ctx)
		return againMySQL(explainMySQL(err))
	}
	t.ended = true
	if err := t.commit(ctx); err != nil {
		return err
	}
	t.store.watch.wake([]ibid.Digest{t.key})
	return nil
}

// complete writes the result in the place of the claim.
func (t *mysqlTx) complete(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	// A savepoint that is gone says that the transaction has ended. With the work's
	// writes its errors are undone.
	query := "RELEASE SAVEPOINT ibid"
	if undo {
		query = "ROLLBACK TO SAVEPOINT ibid"
	}
	if _, err := t.tx.ExecContext(ctx, query); err != nil {
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	if undo {
		if _, err := t.tx.ExecContext(ctx, "SET "+t.store.countRollbacks()); err != nil {
			return err
		}
	}
	now, err := t.check(ctx)
	if err != nil {
		return err
	}
	keep.Retain, keep.Remember = bounded(keep.Retain), bounded(keep.Remember)
	t.record.Gone = max(t.record.Gone, now+1) // the work may have run for longer than the claim was to be kept
	if _, err := t.record.Complete(t.token, result, keep, now); err != nil {
		return err
	}
	return t.put(ctx, now)
}

// Rollback implements ibid.Tx.
func (t *mysqlTx) Rollback(ctx context.Context) error {
	if t.ended {
		return nil
	}
	t.ended = true
	return t.rollback(ctx)
}

// Again implements ibid.Tx.
func (t *mysqlTx) Again(err error) bool { return mysqlError(err) == mysqlDeadlock }
