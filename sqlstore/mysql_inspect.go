package sqlstore

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
)

// mysqlSweep bounds the rows that one transaction of Sweep locks.
const mysqlSweep = 200

// Sweep implements ibid.Sweeper. It deletes a few hundred records at a time, each
// lot in a transaction of its own, and passes over those that others have
// locked: several processes may sweep at once.
func (s *MySQL) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	for n := 0; deleted < limit; {
		ask := min(limit-deleted, mysqlSweep)
		picked, gone, err := s.sweep(ctx, ask)
		if mysqlError(err) == mysqlDeadlock && n < mysqlTries {
			n++
			continue
		}
		if err != nil {
			return deleted, explainMySQL(err)
		}
		deleted += gone
		if picked < ask {
			break
		}
	}
	return deleted, nil
}

// sweep judges up to n rows that are over by their copy of when, under their
// locks. A record that is kept is put off until it is over, and one
// that cannot be read by an hour.
func (s *MySQL) sweep(ctx context.Context, n int) (picked, deleted int, err error) {
	var now int64
	if err := s.db.QueryRowContext(ctx, "SELECT "+mysqlClock).Scan(&now); err != nil {
		return 0, 0, err
	}
	now *= int64(time.Microsecond)
	// Under a stricter isolation it would lock the gaps between rows, where
	// others insert.
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback() // sql.ErrTxDone after Commit
	var over []any
	putOff := make(map[ibid.Digest]int64)
	err = s.each(ctx, tx, "SELECT `key`, record FROM TABLE WHERE gone <= ? ORDER BY gone LIMIT ? FOR UPDATE SKIP LOCKED", []any{now, n}, func(key ibid.Digest, raw []byte) {
		picked++
		r, err := decode(key, raw)
		switch {
		case err != nil:
			putOff[key] = now + int64(time.Hour)
		case r.Kept(now):
			putOff[key] = r.Gone
		default:
			over = append(over, key[:])
		}
	})
	if err != nil {
		return 0, 0, err
	}
	for key, until := range putOff {
		if _, err := tx.ExecContext(ctx, s.sql("UPDATE TABLE SET gone = ? WHERE `key` = ?"), until, key[:]); err != nil {
			return 0, 0, err
		}
	}
	if len(over) > 0 {
		marks := strings.Repeat(", ?", len(over))[2:]
		if _, err := tx.ExecContext(ctx, s.sql("DELETE FROM TABLE WHERE `key` IN ("+marks+")"), over...); err != nil {
			return 0, 0, err
		}
	}
	return picked, len(over), tx.Commit()
}

// List implements ibid.Inspector. A damaged record is left out.
func (s *MySQL) List(ctx context.Context, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	var page []ibid.Entry
	for len(page) < limit {
		row, err := s.get(ctx, after) // for the clock, and to know a replica
		if err != nil {
			return nil, explainMySQL(err)
		}
		query, args := "SELECT `key`, record FROM TABLE WHERE `key` > ?", []any{after[:]}
		if filter.Scope != (ibid.Digest{}) {
			query, args = query+" AND scope = ?", append(args, filter.Scope[:])
		}
		ask := min(max(2*(limit-len(page)), 100), 1000)
		seen := 0
		err = s.each(ctx, s.db, query+" ORDER BY `key` LIMIT ?", append(args, ask), func(key ibid.Digest, raw []byte) {
			seen++
			after = key
			r, err := decode(key, raw)
			if err != nil || len(page) == limit {
				return
			}
			view := r.View(row.now)
			view.Result = nil
			if view.State != ibid.Absent && filter.Match(view) {
				page = append(page, ibid.Entry{Key: key, Record: view})
			}
		})
		if err != nil {
			return nil, explainMySQL(err)
		}
		if seen < ask {
			break
		}
	}
	return page, nil
}

// each asks for rows of key and record. Both are f's to keep.
func (s *MySQL) each(ctx context.Context, conn querier, query string, args []any, f func(key ibid.Digest, raw []byte)) error {
	var key, raw []byte
	return runner{conn}.All(ctx, s.sql(query), args, []any{&key, &raw}, func() error {
		f(ibid.Digest(key), raw)
		return nil
	})
}
