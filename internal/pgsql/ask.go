package pgsql

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ibid-go/ibid"
)

// DB is what the verbs need of a driver. It is satisfied for a pool, where each
// statement commits by itself, and for a transaction.
type DB interface {
	// One asks for a single row; no row is an error that is sql.ErrNoRows.
	One(ctx context.Context, query string, args, dest []any) error
	// All asks for rows, and calls each after every one.
	All(ctx context.Context, query string, args, dest []any, each func() error) error
	// Exec asks for no row. Without arguments, query may hold several statements.
	Exec(ctx context.Context, query string, args ...any) error
}

// tries bounds how often a statement is asked that others get in the way of.
const tries = 20

// Ask runs c until it has an answer. Each try is a transaction of its own.
func Ask(ctx context.Context, db DB, c *Call) error {
	for n := range tries {
		again, err := c.Done(db.One(ctx, c.SQL, c.Args, c.Dest))
		if !again || n == tries-1 {
			return err
		}
		if n > 0 {
			if err := pause(ctx, n); err != nil {
				return err
			}
		}
	}
	panic("unreachable")
}

// AskIn runs c in the caller's transaction, which a conflict has ended already.
func AskIn(ctx context.Context, db DB, c *Call) error {
	_, err := c.Done(db.One(ctx, c.SQL, c.Args, c.Dest))
	return err
}

func pause(ctx context.Context, n int) error {
	t := time.NewTimer(rand.N(time.Duration(n) * 5 * time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// sweepAtOnce bounds the rows that one statement locks.
const sweepAtOnce = 1000

// Sweep is ibid.Sweeper's.
func (q *Queries) Sweep(ctx context.Context, db DB, limit int) (deleted int, err error) {
	for deleted < limit {
		ask := min(limit-deleted, sweepAtOnce)
		var picked, gone, putOff int64
		call := &Call{
			SQL: q.sweep, Args: []any{int64(ask)}, Dest: []any{&picked, &gone, &putOff},
			done: func(bool) error { return nil },
		}
		if err := Ask(ctx, db, call); err != nil {
			return deleted, err
		}
		deleted += int(gone)
		if int(picked) < ask {
			break
		}
	}
	return deleted, nil
}

// List is ibid.Inspector's.
func (q *Queries) List(ctx context.Context, db DB, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	var page []ibid.Entry
	scope := []byte{}
	if filter.Scope != (ibid.Digest{}) {
		scope = filter.Scope[:]
	}
	for len(page) < limit {
		ask := min(max(2*(limit-len(page)), 100), 1000)
		seen := 0
		var r row
		var standby bool
		each := func() error {
			if standby {
				return errStandby
			}
			seen++
			key, view, err := r.view(false)
			after = key // also of a damaged record, which is passed over
			if err == nil && len(page) < limit && filter.Match(view) {
				view.Result = nil
				page = append(page, ibid.Entry{Key: key, Record: view})
			}
			r = row{}
			return nil
		}
		if err := db.All(ctx, q.list, []any{after[:], scope, int64(ask)}, r.dest(&standby), each); err != nil {
			return nil, explain(err)
		}
		if seen < ask {
			break
		}
	}
	return page, nil
}
