package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// MarkTx implements ibid.Marker: the transactional inbox. tx is a transaction of
// the database that the store is in. From MarkTx until its end, tx makes those
// wait who would mark the same keys, for as long as innodb_lock_wait_timeout says.
//
// ibid.ErrTxAgain reports a deadlock, which has ended tx: what is written after
// it is committed statement by statement.
func (s *MySQL) MarkTx(ctx context.Context, tx *sql.Tx, marks []ibid.Mark) ([]ibid.Record, error) {
	if err := s.checkOpen(ctx, tx); err != nil {
		return nil, err
	}
	records := make([]ibid.Record, len(marks))
	for i, m := range marks {
		m.Claim.Lease, m.Claim.Window = bounded(m.Claim.Lease), bounded(m.Claim.Window)
		m.Keep.Retain, m.Keep.Remember = bounded(m.Keep.Retain), bounded(m.Keep.Remember)
		var err error
		if records[i], err = s.mark(ctx, tx, m); err != nil {
			return nil, againMySQL(explainMySQL(err))
		}
	}
	return records, s.checkOpen(ctx, tx)
}

// mark inserts the mark as it is granted where nothing stands, and decides again
// under the row's lock where something does.
func (s *MySQL) mark(ctx context.Context, tx *sql.Tx, m ibid.Mark) (ibid.Record, error) {
	var turn, now int64
	// The row is not read before it is inserted: some isolation levels would lock
	// the gap.
	if err := tx.QueryRowContext(ctx, "SELECT "+mysqlClock).Scan(&now); err != nil {
		return ibid.Record{}, err
	}
	now *= int64(time.Microsecond)
	var fresh record.Record
	if _, err := fresh.Mark(m, now); err != nil {
		return ibid.Record{}, err
	}
	res, err := tx.ExecContext(ctx, s.sql(mysqlTake), m.Key[:], now, fresh.Gone, fresh.Scope[:], fresh.Append(nil, m.Key))
	if err != nil {
		return ibid.Record{}, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return fresh.View(now), err
	}
	var raw []byte
	if err := tx.StmtContext(ctx, s.lock).QueryRowContext(ctx, m.Key[:]).Scan(&turn, &raw, &now); err != nil {
		return ibid.Record{}, err
	}
	now *= int64(time.Microsecond)
	r, err := decode(m.Key, raw)
	if err != nil {
		return ibid.Record{}, err
	}
	changed, err := r.Mark(m, now)
	if err != nil || !changed {
		return r.View(now), err
	}
	res, err = tx.StmtContext(ctx, s.update).ExecContext(ctx, max(turn+1, now), r.Gone, r.Scope[:], r.Append(nil, m.Key), m.Key[:], turn)
	return r.View(now), oneRow(res, err)
}
