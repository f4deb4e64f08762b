package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ibid-go/ibid"
)

// reader is a connection that reads. In WAL mode it sees the last commit, and
// neither waits for the writer nor holds it up.
type reader struct {
	conn                      *sql.Conn
	get, over, list, listOnly *sql.Stmt
}

// read runs f with a reader, as soon as one is idle.
func (s *SQLite) read(ctx context.Context, f func(*reader) error) error {
	var r *reader
	select {
	case r = <-s.readers:
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- r }()
	err := retryBusy(ctx, s.opts.BusyTimeout, func() error {
		if r.conn == nil {
			if err := s.openReader(ctx, r); err != nil {
				return err
			}
		}
		return f(r)
	})
	if err != nil {
		_ = r.close() // the next one opens it anew
	}
	return explain(err)
}

func (s *SQLite) openReader(ctx context.Context, r *reader) (err error) {
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	r.conn, err = s.db.Conn(ctx)
	if err != nil {
		r.conn = nil
		return err
	}
	err = prepare(ctx, r.conn, []string{"PRAGMA busy_timeout = 0", "PRAGMA query_only = 1"}, []statement{
		{&r.get, s.queries.get},
		{&r.over, s.queries.over},
		{&r.list, s.queries.list},
		{&r.listOnly, s.queries.listOnly},
	})
	if err != nil {
		_ = r.close()
	}
	return err
}

func (r *reader) close() error {
	if r.conn == nil {
		return nil
	}
	err := closeConn(r.conn, r.get, r.over, r.list, r.listOnly)
	*r = reader{}
	return err
}

// record returns the bytes of the record at key, and nil where there is none.
func (s *SQLite) record(ctx context.Context, key ibid.Digest) (raw []byte, err error) {
	err = s.read(ctx, func(r *reader) (err error) {
		raw, err = getRecord(r.get, key)
		return err
	})
	return raw, err
}

func getRecord(get *sql.Stmt, key ibid.Digest) (raw []byte, err error) {
	err = get.QueryRow(key[:]).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil && raw == nil {
		raw = []byte{} // no bytes are a damaged record, not an absent one
	}
	return raw, err
}

// The pauses between two tries for a lock: about as long as another's commit at
// first, and so short at most that a free lock does not stay free.
const (
	firstPause = 200 * time.Microsecond
	lastPause  = 5 * time.Millisecond
)

// retryBusy calls f until it does not report that a lock is held elsewhere, and
// gives up after timeout, or when ctx ends. f is called at least once.
func retryBusy(ctx context.Context, timeout time.Duration, f func() error) error {
	start := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := f()
		if err == nil || !isBusy(err) {
			return err
		}
		if waited := time.Since(start); waited >= timeout {
			return fmt.Errorf("another connection has held the lock for longer than SQLiteOptions.BusyTimeout allows: %w", err)
		}
		t := time.NewTimer(pause/2 + rand.N(pause)) // two that met do not meet again
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
