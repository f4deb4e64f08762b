package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// change is a verb: it applies it to r as it stands at now, and reports whether
// it changed r.
type change func(r *record.Record, now int64) (changed bool, err error)

// mysqlTries bounds how often a verb is tried that others get in the way of.
const mysqlTries = 20

var errContended = errors.New("sqlstore: the record changes faster than it can be read")

// mysqlRow is a row as it was read.
type mysqlRow struct {
	turn sql.NullInt64 // not valid where there is no row
	raw  []byte
	now  int64     // the server's clock when it was read
	at   time.Time // this process's, before it was read
}

// apply makes the change at key, and returns the record as the change left it.
// It writes nothing where the change changed nothing. A change must be content to be asked
// again.
func (s *MySQL) apply(ctx context.Context, key ibid.Digest, c change) (ibid.Record, error) {
	return s.repair(ctx, key, nil, c)
}

// repair is apply that takes a damaged record for what mend says it is.
func (s *MySQL) repair(ctx context.Context, key ibid.Digest, mend func(now int64) record.Record, c change) (ibid.Record, error) {
	for n := range mysqlTries {
		if err := rest(ctx, n); err != nil {
			return ibid.Record{}, err
		}
		row, err := s.get(ctx, key)
		if err != nil {
			return ibid.Record{}, err
		}
		r, err := decode(key, row.raw)
		if mend != nil && errors.Is(err, ibid.ErrDamaged) {
			r, err = mend(row.now), nil
		}
		if err != nil {
			return ibid.Record{}, err
		}
		changed, err := c(&r, row.now)
		if err != nil || !changed {
			return r.View(row.now), err
		}
		written, err := s.put(ctx, key, &row, &r)
		switch {
		case written:
			return s.view(&r, row), nil
		case err != nil && mysqlError(err) != mysqlDeadlock && mysqlError(err) != mysqlDuplicate:
			return ibid.Record{}, explainMySQL(err)
		}
	}
	return ibid.Record{}, errContended
}

// view returns what a write made of a record, at the present of the server's
// clock as far as it is known: a write that waited for a lock ends later than it began.
func (s *MySQL) view(r *record.Record, row mysqlRow) ibid.Record {
	now := row.now
	if waited := time.Since(row.at); waited > 20*time.Millisecond {
		now += int64(waited)
	}
	return r.View(now)
}

func (s *MySQL) get(ctx context.Context, key ibid.Digest) (row mysqlRow, err error) {
	var readOnly string // 0 or OFF on a primary, by version
	row.at = time.Now()
	err = s.read.QueryRowContext(ctx, key[:]).Scan(&row.turn, &row.raw, &row.now, &readOnly)
	row.now *= int64(time.Microsecond)
	if err == nil && readOnly != "0" && readOnly != "OFF" {
		err = errReadOnly
	}
	return row, err
}

// put writes r in the place of the row that was read, if it is still as it was.
func (s *MySQL) put(ctx context.Context, key ibid.Digest, row *mysqlRow, r *record.Record) (written bool, err error) {
	var res sql.Result
	// A row that was swept and made anew has a later turn, too.
	turn := max(row.turn.Int64+1, row.now)
	if row.turn.Valid {
		res, err = s.update.ExecContext(ctx, turn, r.Gone, r.Scope[:], r.Append(nil, key), key[:], row.turn.Int64)
	} else {
		res, err = s.insert.ExecContext(ctx, key[:], turn, r.Gone, r.Scope[:], r.Append(nil, key))
	}
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// Begin implements ibid.Store.
func (s *MySQL) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	claim.Lease, claim.Window = bounded(claim.Lease), bounded(claim.Window)
	for n := 0; ; n++ {
		began := time.Now()
		view, err := s.apply(ctx, key, func(r *record.Record, now int64) (bool, error) { return r.Begin(claim, now), nil })
		if waited := time.Since(began); err != nil || view.Token != claim.Token || waited <= max(claim.Lease/2, 50*time.Millisecond) || n == 2 {
			return view, err
		}
		// It waited for a lock, and the lease with it. The token stands, so asking
		// again grants a fresh one.
	}
}

// Look implements ibid.Store.
func (s *MySQL) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	return s.apply(ctx, key, func(*record.Record, int64) (bool, error) { return false, nil })
}

// write is apply for a verb that may end a claim.
func (s *MySQL) write(ctx context.Context, key ibid.Digest, c change) error {
	_, err := s.apply(ctx, key, c)
	if err == nil {
		s.watch.wake([]ibid.Digest{key})
	}
	return err
}

// Complete implements ibid.Store. ErrTooLarge reports a result that the server's
// max_allowed_packet, or 64 MiB, does not let through.
func (s *MySQL) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if len(result) > s.maxResult {
		return ibid.ErrTooLarge
	}
	keep.Retain, keep.Remember = bounded(keep.Retain), bounded(keep.Remember)
	return s.write(ctx, key, func(r *record.Record, now int64) (bool, error) { return r.Complete(token, result, keep, now) })
}

// Extend implements ibid.Store.
func (s *MySQL) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	extend := func(r *record.Record, now int64) (bool, error) { return true, r.Extend(token, bounded(lease), now) }
	if lease > 0 {
		_, err := s.apply(ctx, key, extend)
		return err
	}
	return s.write(ctx, key, extend)
}

// Release implements ibid.Store.
func (s *MySQL) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	return s.write(ctx, key, func(r *record.Record, now int64) (bool, error) { return r.Release(token, now), nil })
}

// Checkpoint implements ibid.Checkpointer.
func (s *MySQL) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, steps []byte) error {
	_, err := s.apply(ctx, key, func(r *record.Record, now int64) (bool, error) { return true, r.Checkpoint(token, steps, now) })
	return err
}

// Forget implements ibid.Inspector.
func (s *MySQL) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	var mend func(now int64) record.Record
	if token.IsZero() {
		mend = record.Damaged
	}
	_, err := s.repair(ctx, key, mend, func(r *record.Record, now int64) (bool, error) { return true, r.Forget(token, bounded(window), now) })
	if err == nil {
		s.watch.wake([]ibid.Digest{key})
	}
	return err
}

// Watch implements ibid.Notifier for writes of this store in this process, and
// not for those of others, nor for CompleteTx, whose commit is the caller's.
func (s *MySQL) Watch(_ context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	changed, stop := s.watch.add(key)
	return changed, stop, nil
}

// bounded rounds d up to the server's microsecond, and keeps it within the hundred
// years that a record's moments have room for.
func bounded(d time.Duration) time.Duration {
	const century = 100 * 366 * 24 * time.Hour
	d = min(d, century)
	if rest := d % time.Microsecond; d > 0 && rest > 0 {
		d += time.Microsecond - rest
	}
	return d
}
