package sqlstore

import (
	"context"
	"math"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// sweepBatch is how many records one transaction sweeps: writers wait for no
// more than that.
const sweepBatch = 128

// never is the gone column of a record that is not swept.
const never = math.MaxInt64

// Sweep implements ibid.Sweeper. What is over is found by a column, and decided
// by the record: one that is damaged is kept until someone forgets it, and one
// whose column is wrong gets it put right.
func (s *SQLite) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	for deleted < limit {
		found, err := s.overdue(ctx, min(limit-deleted, sweepBatch))
		if err != nil || len(found) == 0 {
			return deleted, err
		}
		n := 0
		err = s.write(ctx, func(b *batch) error {
			n = 0
			for _, o := range found {
				done, err := b.sweep(o)
				if err != nil {
					return err
				}
				n += done
			}
			return nil
		})
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

// overdue is a row whose gone column is in the past.
type overdue struct {
	key  ibid.Digest
	gone int64 // as it stands in the column
	next int64 // what the column should say; 0 when the record is over
}

func (s *SQLite) overdue(ctx context.Context, limit int) (found []overdue, err error) {
	err = s.read(ctx, func(r *reader) error {
		found = found[:0]
		now := clock()
		rows, err := r.over.QueryContext(ctx, now, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var o overdue
			var raw []byte
			if err := rows.Scan(digest{&o.key}, &o.gone, &raw); err != nil {
				return err
			}
			switch rec, err := record.Decode(o.key, raw); {
			case err != nil:
				o.next = never
			case rec.Kept(now):
				o.next = rec.Gone
			}
			found = append(found, o)
		}
		return rows.Err()
	})
	return found, err
}

// sweep deletes the row of o, or puts its column right, unless it was written
// since it was read. It returns how many it deleted.
func (b *batch) sweep(o overdue) (deleted int, err error) {
	if o.next != 0 {
		_, err = b.exec(b.postpone, o.next, o.key[:], o.gone)
		return 0, err
	}
	n, err := b.exec(b.remove, o.key[:], o.gone)
	return int(n), err
}
