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

// write runs run in a transaction, which calls that come together share. It
// returns when the transaction is committed. When ctx ends first, run may have
// been applied, and may be later.
func (s *SQLite) write(ctx context.Context, run func(*batch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := &call{run: run}
	leads, err := s.queue.enter(ctx, own)
	if !leads {
		return err
	}
	var taken []*call
	defer func() { s.queue.leave(taken) }()
	// The lock comes first: calls that arrive while it is waited for are in the
	// batch too. A leader that does not get it fails alone, and with it those
	// that have waited as long.
	if err := s.begin(ctx, own.entered); err != nil {
		err = explain(err)
		s.queue.expel(s.opts.BusyTimeout, err)
		return err
	}
	taken = s.queue.take(s.opts.MaxBatch - 1)
	s.runAll(append([]*call{own}, taken...))
	return own.err
}

// alone runs f while nobody writes.
func (s *SQLite) alone(ctx context.Context, f func() error) error {
	if leads, err := s.queue.enter(ctx, &call{}); !leads {
		return err
	}
	defer s.queue.leave(nil)
	return f()
}

// begin takes the write lock, for which it waits until BusyTimeout has passed
// since the call was entered. Nothing is begun when it fails.
func (s *SQLite) begin(ctx context.Context, entered time.Time) error {
	return retryBusy(ctx, s.opts.BusyTimeout-time.Since(entered), func() (err error) {
		if s.writer == nil {
			s.writer, err = s.openWriter(ctx)
		}
		if err == nil {
			_, err = s.writer.begin.Exec()
		}
		if err != nil && !isBusy(err) {
			s.discard()
		}
		return err
	})
}

// runAll runs calls in the transaction that was begun, and answers each. When a
// statement fails, SQLite may have undone all of the transaction: then each call is
// run again in one of its own, so that only those fail that cannot be done.
func (s *SQLite) runAll(calls []*call) {
	answered := false
	defer func() {
		for _, c := range calls {
			if !answered { // nothing is known of the transaction, and nothing acknowledged
				c.err = errors.New("sqlstore: a write panicked")
			}
		}
	}()
	if s.runBatch(calls) && len(calls) > 1 {
		start := time.Now() // BusyTimeout is for all of them
		for _, c := range calls {
			if c.err = s.begin(context.Background(), start); c.err == nil {
				s.runBatch([]*call{c})
			}
		}
	}
	for _, c := range calls {
		c.err = explain(c.err)
	}
	answered = true
}

// runBatch runs calls and ends the transaction. It reports whether a statement
// failed: then nothing was applied. A COMMIT that fails is the error of
// every call, since it may have been applied.
func (s *SQLite) runBatch(calls []*call) (undone bool) {
	b := batch{writer: s.writer}
	for _, c := range calls {
		c.err = c.run(&b)
		if b.failed {
			s.rollback()
			return true
		}
	}
	if !b.changed {
		s.rollback()
		return false
	}
	if _, err := s.writer.commit.Exec(); err != nil {
		s.rollback()
		err = fmt.Errorf("commit, which may have been applied: %w", err)
		for _, c := range calls {
			c.err = err
		}
		return false
	}
	s.watch.wake(b.freed)
	return false
}

// rollback ends the transaction. SQLite has ended it already after some
// errors, and which is not told: then a new connection is cheaper than a doubt.
func (s *SQLite) rollback() {
	if _, err := s.writer.rollback.Exec(); err != nil {
		s.discard()
	}
}

func (s *SQLite) discard() {
	_ = s.writer.close() // its transaction is undone with it
	s.writer = nil
}

// batch is the transaction of one or several calls.
type batch struct {
	*writer
	changed bool
	failed  bool          // a statement failed: the transaction cannot be trusted
	freed   []ibid.Digest // keys whose waiters may go on after the commit
}

// record returns the bytes of the record at key; nil where there is none.
func (b *batch) record(key ibid.Digest) ([]byte, error) {
	raw, err := getRecord(b.get, key)
	b.failed = b.failed || err != nil
	return raw, err
}

// exec runs a statement that writes, and returns how many rows it changed.
func (b *batch) exec(stmt *sql.Stmt, args ...any) (int64, error) {
	res, err := stmt.Exec(args...)
	if err != nil {
		b.failed = true
		return 0, err
	}
	n, err := res.RowsAffected()
	b.failed = err != nil
	b.changed = b.changed || n > 0
	return n, err
}

// writer is the connection that writes.
type writer struct {
	conn                    *sql.Conn
	begin, commit, rollback *sql.Stmt
	get, insert, update     *sql.Stmt
	remove, postpone        *sql.Stmt
	buf                     []byte // for the bytes of one record
}

func (s *SQLite) openWriter(ctx context.Context) (*writer, error) {
	select {
	case <-s.closed:
		return nil, errClosed
	default:
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn}
	err = prepare(ctx, conn, []string{
		"PRAGMA busy_timeout = 0", // retryBusy waits, and looks at the context meanwhile
		fmt.Sprintf("PRAGMA synchronous = %d", s.opts.Synchronous.pragma()),
		"PRAGMA fullfsync = 1", // where fsync alone does not reach the disk; elsewhere it does nothing
	}, []statement{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.get, s.queries.get},
		{&w.insert, s.queries.insert},
		{&w.update, s.queries.update},
		{&w.remove, s.queries.remove},
		{&w.postpone, s.queries.postpone},
	})
	if err != nil {
		_ = w.close()
		return nil, err
	}
	return w, nil
}

// close closes the connection, instead of giving it back to the pool with settings
// that are not the pool's.
func (w *writer) close() error {
	if w == nil {
		return nil
	}
	_, _ = w.conn.ExecContext(context.Background(), "ROLLBACK") // fails where there is nothing to undo
	return closeConn(w.conn, w.begin, w.commit, w.rollback, w.get, w.insert, w.update, w.remove, w.postpone)
}

// closeConn closes conn after its statements: SQLite keeps a connection, with its
// transaction and locks, as long as one of them is open.
func closeConn(conn *sql.Conn, statements ...*sql.Stmt) error {
	for _, st := range statements {
		if st != nil {
			_ = st.Close()
		}
	}
	err := conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// statement is where a prepared statement goes, and its text.
type statement struct {
	stmt **sql.Stmt
	text string
}

// prepare runs pragmas on conn and prepares statements, which live as long as conn.
func prepare(ctx context.Context, conn *sql.Conn, pragmas []string, statements []statement) error {
	for _, p := range pragmas {
		if _, err := conn.ExecContext(ctx, p); err != nil {
			return err
		}
	}
	for _, st := range statements {
		stmt, err := conn.PrepareContext(ctx, st.text) //nolint:sqlclosecheck // closed with its connection
		if err != nil {
			return err
		}
		*st.stmt = stmt
	}
	return nil
}
