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

// List implements ibid.Inspector. A damaged record is left out: Look at its key
// says what is wrong with it.
func (s *SQLite) List(ctx context.Context, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	var entries []ibid.Entry
	err := s.read(ctx, func(r *reader) error {
		entries = nil
		stmt, args := r.list, []any{after[:]}
		if filter.Scope != (ibid.Digest{}) {
			stmt, args = r.listOnly, append(args, filter.Scope[:])
		}
		rows, err := stmt.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for now := clock(); len(entries) < limit && rows.Next(); {
			var key ibid.Digest
			var raw sql.RawBytes
			if err := rows.Scan(digest{&key}, &raw); err != nil {
				return err
			}
			rec, err := record.Decode(key, raw)
			if err != nil {
				continue
			}
			view := rec.View(now)
			if view.State == ibid.Absent || !filter.Match(view) {
				continue
			}
			view.Result = nil
			view.Label, view.Steps = clone(view.Label), clone(view.Steps)
			entries = append(entries, ibid.Entry{Key: key, Record: view})
		}
		return rows.Err()
	})
	return entries, err
}

// clone copies b out of the driver's memory; nothing is nil.
func clone(b []byte) []byte { return append([]byte(nil), b...) }

// digest scans a key.
type digest struct{ *ibid.Digest }

// Scan implements sql.Scanner.
func (d digest) Scan(src any) error {
	b, ok := src.([]byte)
	if !ok || len(b) != len(d.Digest) {
		return fmt.Errorf("%w: a key that is no digest", ibid.ErrDamaged)
	}
	copy(d.Digest[:], b)
	return nil
}

// Forget implements ibid.Inspector. A damaged record has no token that could be
// read: the zero Token forgets it, and only it. Its generation is not known
// either, and becomes the time in seconds, which no count of forgets reaches.
func (s *SQLite) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	return s.write(ctx, func(b *batch) error {
		raw, err := b.record(key)
		if err != nil {
			return err
		}
		now := clock()
		r, err := decode(key, raw)
		if errors.Is(err, ibid.ErrDamaged) && token.IsZero() {
			r = record.Record{Generation: int(now / int64(time.Second)), Gone: now + 1}
			err = nil
		}
		if err == nil {
			err = r.Forget(token, window, now)
		}
		if err != nil {
			return err
		}
		b.freed = append(b.freed, key)
		return b.put(key, &r, raw != nil)
	})
}

// Requeue implements ibid.Requeuer.
func (s *SQLite) Requeue(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	return s.change(ctx, key, func(r *record.Record, now int64) (changed, frees bool, err error) {
		err = r.Requeue(token, window, now)
		return true, true, err
	})
}
