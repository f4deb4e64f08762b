package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// MarkTx implements ibid.Marker. tx is a transaction of the database that the
// store is in. All marks go in one round trip; one more is needed where
// something stands at a key already.
//
// A key that another transaction has marked and not yet committed is waited for,
// up to the lock_timeout of the transaction. Marks in one call should be in the
// same order everywhere; two transactions that mark the same two keys in
// different orders can be a deadlock, which is ErrTxAgain for one of them.
func (s *Store) MarkTx(ctx context.Context, tx pgx.Tx, marks []ibid.Mark) ([]ibid.Record, error) {
	for _, m := range marks {
		if len(m.Result) > pgsql.MaxResult {
			return nil, ibid.ErrTooLarge
		}
	}
	records := make([]ibid.Record, len(marks))
	left, err := s.markNew(ctx, tx, marks, records)
	for try := 0; err == nil && len(left) > 0; try++ {
		if try == 20 {
			return nil, errors.New("the records change faster than they can be read")
		}
		left, err = s.markSome(ctx, tx, marks, left, records)
	}
	if err != nil {
		return nil, busy(err)
	}
	return records, nil
}

// markNew inserts the marks as records that are complete from the first, and
// returns the indexes of those where a row stands.
func (s *Store) markNew(ctx context.Context, tx pgx.Tx, marks []ibid.Mark, records []ibid.Record) (left []int, err error) {
	now, err := s.clock.now(ctx, tx)
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(marks); {
		n := 1
		for n < markAtOnce && from+2*n <= len(marks) {
			n *= 2 // few different statements, so that they stay prepared
		}
		some, err := s.insert(ctx, tx, marks[from:from+n], now, records[from:from+n])
		if err != nil {
			return nil, err
		}
		for _, i := range some {
			left = append(left, from+i)
		}
		from += n
	}
	return left, nil
}

// markAtOnce bounds the rows of one statement; a power of two.
const markAtOnce = 64

// insert inserts marks, and returns the indexes of those where a row stands, or
// whose key is among them twice.
func (s *Store) insert(ctx context.Context, tx pgx.Tx, marks []ibid.Mark, now int64, records []ibid.Record) (left []int, err error) {
	var one string
	var all []any
	for _, m := range marks {
		query, args := s.queries.Insert(m.Key, m.Claim, now, now, m.Result, m.Keep)
		one, all = query, append(all, args...)
	}
	query, ok := s.onlyNew.Load(len(marks))
	if !ok {
		query, _ = s.onlyNew.LoadOrStore(len(marks), pgsql.OnlyNew(one, len(marks)))
	}
	rows, err := tx.Query(ctx, query.(string), all...)
	if err != nil {
		return nil, err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, err
	}
	fresh := make(map[ibid.Digest]bool, len(keys))
	for _, key := range keys {
		fresh[ibid.Digest(key)] = true
	}
	for i, m := range marks {
		if !fresh[m.Key] {
			left = append(left, i)
			continue
		}
		delete(fresh, m.Key) // the next one of the batch is a duplicate
		records[i] = ibid.Record{
			State: ibid.Completed, Token: m.Claim.Token, Fence: now, Attempt: 1, Fingerprint: m.Claim.Fingerprint,
			Scope: m.Claim.Scope, Label: m.Claim.Label, Window: m.Keep.Retain, Result: m.Result,
		}
	}
	return left, nil
}

// serverClock is the server's clock as it was read last, carried on by this
// process's own for a second: a mark needs the time before it is written.
type serverClock struct {
	mu     sync.Mutex
	micros int64
	read   time.Time
}

func (c *serverClock) now(ctx context.Context, tx pgx.Tx) (int64, error) {
	c.mu.Lock()
	micros, age := c.micros, time.Since(c.read)
	c.mu.Unlock()
	if micros != 0 && age < time.Second {
		return micros + age.Microseconds(), nil
	}
	err := tx.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8").Scan(&micros)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.micros, c.read = micros, time.Now()
	return micros, nil
}

// markSome asks for the marks at the indexes left, where something stands, and
// returns those that must be asked for again. Begin and Complete are sent
// together: a Complete whose Begin was not granted changes nothing.
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
	if pgsql.Conflict(err) || pgsql.LockTimedOut(err) {
		return fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	}
	return err
}
