package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ibid-go/ibid"
)

// MarkTx implements ibid.Marker: the transactional inbox. tx is a transaction of
// the database that the store is in, and takes the write lock here at the latest:
// all who mark do so one after another. Begin it as IMMEDIATE (_txlock=immediate),
// with a busy timeout: then it waits for its turn, and is never refused half-way.
func (s *SQLite) MarkTx(ctx context.Context, tx *sql.Tx, marks []ibid.Mark) ([]ibid.Record, error) {
	if err := s.checkSync(ctx, tx); err != nil {
		return nil, err
	}
	records := make([]ibid.Record, len(marks))
	for i, m := range marks {
		var err error
		if records[i], err = s.mark(ctx, tx, m); isBusy(err) {
			return nil, errors.Join(ibid.ErrTxAgain, err)
		} else if err != nil {
			return nil, explain(err)
		}
	}
	return records, nil
}

func (s *SQLite) mark(ctx context.Context, tx *sql.Tx, m ibid.Mark) (ibid.Record, error) {
	// The first statement writes, so that the record is read under the lock.
	if _, err := tx.ExecContext(ctx, s.queries.lock, m.Key[:]); err != nil {
		return ibid.Record{}, err
	}
	var raw []byte
	err := tx.QueryRowContext(ctx, s.queries.get, m.Key[:]).Scan(&raw)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return ibid.Record{}, err
	}
	r, err := decode(m.Key, raw)
	if err != nil {
		return ibid.Record{}, err
	}
	now := clock()
	changed, err := r.Mark(m, now)
	switch {
	case err != nil:
	case changed && raw == nil:
		_, err = tx.ExecContext(ctx, s.queries.insert, m.Key[:], r.Gone, r.Scope[:], r.Append(nil, m.Key))
	case changed:
		_, err = tx.ExecContext(ctx, s.queries.update, r.Gone, r.Scope[:], r.Append(nil, m.Key), m.Key[:])
	}
	return r.View(now), err
}
