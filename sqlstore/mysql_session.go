package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// A transaction that work is run in, as a policy. In MySQL a deadlock ends the
// whole transaction, and a lock timeout, or a duplicate, its statement only; work
// that swallows the error goes on, and half of it would be committed. So the
// session runs with autocommit off: what is written after a deadlock is not
// committed by itself, and is rolled back. And the session counts what was rolled
// back in it: a statement that failed during the work, and whose error was
// swallowed, refuses the commit, as it does in PostgreSQL.

// mysqlSession is a transaction that the store begins and ends.
type mysqlSession struct {
	store *MySQL
	conn  *sql.Conn
	tx    *sql.Tx
	free  func() // what tx holds of its context
}

// session begins a transaction on a connection of its own. It has the isolation
// level of db's connections.
func (s *MySQL) session(ctx context.Context) (*mysqlSession, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &mysqlSession{store: s, conn: conn}
	if _, err = conn.ExecContext(ctx, "SET autocommit = 0, "+s.countRollbacks()); err == nil {
		// The end of ctx ends the beginning, and no transaction that may be
		// committing.
		begin, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, cancel)
		t.free = cancel
		t.tx, err = conn.BeginTx(begin, nil)
		if !stop() && err == nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		t.giveBack(err)
		return nil, explainMySQL(err)
	}
	return t, nil
}

// rollbacks is how many statements and transactions were rolled back in the
// session; rolling back to a savepoint does not count.
func (s *MySQL) rollbacks() string {
	schema := "performance_schema"
	if s.mariaDB {
		schema = "information_schema"
	}
	return "(SELECT VARIABLE_VALUE FROM " + schema + ".session_status WHERE VARIABLE_NAME = 'Handler_rollback')"
}

// countRollbacks is the part of a SET after which rollbacks are counted.
func (s *MySQL) countRollbacks() string { return "@ibid_rollbacks = " + s.rollbacks() }

// check reads the server's clock, in nanoseconds, and reports errSwallowed when
// a statement has failed since rollbacks are counted.
func (t *mysqlSession) check(ctx context.Context) (now int64, err error) {
	var same bool
	err = t.tx.QueryRowContext(ctx, "SELECT "+mysqlClock+", "+t.store.rollbacks()+" = @ibid_rollbacks").Scan(&now, &same)
	if err == nil && !same {
		err = errSwallowed
	}
	return now * int64(time.Microsecond), err
}

var errSwallowed = errors.New("a statement failed during the work, which went on: return its error, and where a duplicate is expected, say INSERT IGNORE or ON DUPLICATE KEY UPDATE")

// commit commits and ends the session. Only where the server names a deadlock
// is it known that nothing was committed.
func (t *mysqlSession) commit(ctx context.Context) error {
	_, err := t.tx.ExecContext(ctx, "COMMIT") // Tx.Commit has no deadline
	t.end(ctx, err)
	switch {
	case err == nil:
		return nil
	case mysqlError(err) == mysqlDeadlock:
		return fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	}
	return fmt.Errorf("%w: %w", ibid.ErrCommitUnknown, err)
}

// rollback undoes the transaction and ends the session.
func (t *mysqlSession) rollback(ctx context.Context) error {
	_, err := t.tx.ExecContext(ctx, "ROLLBACK") // Tx.Rollback has no deadline
	t.end(ctx, err)
	return err
}

// end gives the connection back as it was, after COMMIT or ROLLBACK; one that
// err leaves a doubt about is closed.
func (t *mysqlSession) end(ctx context.Context, err error) {
	if err == nil {
		_, err = t.tx.ExecContext(ctx, "SET autocommit = 1")
	}
	t.giveBack(err)
}

func (t *mysqlSession) giveBack(err error) {
	if t.tx != nil { // the connection cannot be closed before it
		err = errors.Join(err, t.tx.Rollback()) // there is nothing left to undo
	}
	if t.free != nil {
		t.free()
	}
	if err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = t.conn.Close()
}

// endTimeout bounds what is done after the work, whatever became of its caller.
const endTimeout = 10 * time.Second

// InTx is what steps.StepTx asks for: it runs work in a transaction, writes the
// checkpoint that work returns, and commits. Work finds the transaction in its
// context too. An error of a statement that work swallows refuses the commit.
func (s *MySQL) InTx(ctx context.Context, work func(context.Context, *sql.Tx) (ibid.Checkpoint, error)) error {
	t, err := s.session(ctx)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // also when the work panics
			detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			_ = t.rollback(detached)
		}
	}()
	if _, err := t.tx.ExecContext(ctx, "SAVEPOINT ibid"); err != nil {
		return explainMySQL(err)
	}
	c, err := work(context.WithValue(ctx, txKey{}, t.tx), t.tx)
	if err != nil {
		return againMySQL(err)
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if _, err := t.tx.ExecContext(detached, "RELEASE SAVEPOINT ibid"); err != nil {
		return fmt.Errorf("%w: %w", errPoisoned, err)
	}
	if _, err := t.check(detached); err != nil {
		return err
	}
	if err := s.CheckpointTx(detached, t.tx, c); err != nil {
		return againMySQL(err)
	}
	ended = true
	return t.commit(detached)
}

// againMySQL marks a deadlock, which has ended the transaction.
func againMySQL(err error) error {
	if err != nil && mysqlError(err) == mysqlDeadlock && !errors.Is(err, ibid.ErrTxAgain) {
		return fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	}
	return err
}
