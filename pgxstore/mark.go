package pgxstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// MarkTx implements ibid.Marker: the transactional inbox. tx is a transaction of
// the database that the store is in. All marks go in one round trip; one more
// is needed where another transaction held a key, and was waited for.
//
// A key that another transaction has marked and not yet committed is waited for,
// up to the lock_timeout of the transaction. Marks in one call should be in the
// same order everywhere; two transactions that mark the same two keys in different orders can be
// a deadlock, which is ErrTxAgain for one of them.
func (s *Store) MarkTx(ctx context.Context, tx pgx.Tx, marks []ibid.Mark) ([]ibid.Record, error) {
	records := make([]ibid.Record, len(marks))
	left := make([]int, len(marks)) // marks not yet answered
	for i, m := range marks {
		left[i] = i
		if len(m.Result) > pgsql.MaxResult {
			return nil, ibid.ErrTooLarge
		}
	}
	for try := 0; len(left) > 0; try++ {
		again, err := s.markSome(ctx, tx, marks, left, records)
		if err == nil && len(again) > 0 && try == 20 {
			err = errors.New("the records change faster than they can be read")
		}
		if err != nil {
			return nil, busy(err)
		}
		left = again
	}
	return records, nil
}

// markSome asks for the marks at the indexes left, and returns those that must
// be asked for again. Begin and Complete are sent together: a Complete whose
// Begin was not granted changes nothing.
func (s *Store) markSome(ctx context.Context, tx pgx.Tx, marks []ibid.Mark, left []int, records []ibid.Record) (again []int, err error) {
	var batch pgx.Batch
	for _, i := range left {
		m := &marks[i]
		begin := s.queries.Begin(m.Key, m.Claim, &records[i])
		complete := s.queries.Complete(m.Key, m.Claim.Token, m.Result, m.Keep)
		repeat := false
		batch.Queue(begin.SQL, begin.Args...).QueryRow(func(row pgx.Row) error {
			var err error
			repeat, err = begin.Done(row.Scan(begin.Dest...))
			return skip(repeat, err)
		})
		batch.Queue(complete.SQL, complete.Args...).QueryRow(func(row pgx.Row) error {
			more, err := complete.Done(row.Scan(complete.Dest...))
			switch owned := records[i].OwnedBy(m.Claim.Token); {
			case repeat || more:
				again = append(again, i)
				return skip(true, err)
			case owned && err == nil:
				records[i].State, records[i].Result = ibid.Completed, m.Result
			case !owned && errors.Is(err, ibid.ErrClaimLost):
				return nil
			}
			return err
		})
	}
	return again, tx.SendBatch(ctx, &batch).Close()
}

// skip passes over an error that asking again may help, unless it ended the
// transaction.
func skip(again bool, err error) error {
	var ended *pgconn.PgError
	if again && !errors.As(err, &ended) {
		return nil
	}
	return err
}

// busy marks the errors after which the transaction may be run again.
func busy(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && (pgsql.Conflict(err) || e.Code == "55P03") { // lock_not_available
		return fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	}
	return err
}
