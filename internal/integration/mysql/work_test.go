package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// till is a shop whose payments are made in transactional mode. Its ledger has
// no unique constraint, so that an effect that happened twice shows.
type till struct {
	shop
	engine *ibid.Engine
	rows   string // two rows, to lock each other out on
}

func newTill(t *testing.T, db *sql.DB) till {
	t.Helper()
	s := newShop(t, db)
	e, err := ibid.New(t.Context(), s.store, &ibid.Options{Policy: ibid.Policy{Wait: 20 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	rows := s.payments + "_rows"
	for _, q := range []string{"CREATE TABLE " + rows + " (id INT PRIMARY KEY, n INT) ENGINE = InnoDB", "INSERT INTO " + rows + " VALUES (1, 0), (2, 0)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = db.Exec("DROP TABLE IF EXISTS " + rows) })
	return till{s, e, rows}
}

// payIn pays n times in tx, and records nothing of it.
func (s till) payIn(ctx context.Context, tx *sql.Tx, k ibid.Digest) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+s.payments+" VALUES (?, 1)", k[:])
	return err
}

func callOf(k ibid.Digest) ibid.Call {
	return ibid.Call{Key: ibid.Key{Scope: "till", ID: fmt.Sprintf("%x", k[:8])}, Fingerprint: ibid.Fingerprint{1}}
}

// errorsOfStatements are errors that the server makes of a statement, by how
// much they undo. Work that swallows one goes on.
func (s till) errorsOfStatements(t *testing.T) []statementError {
	return []statementError{
		{"a duplicate", "undoes its statement", 1062, func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO " + s.rows + " VALUES (1, 1)")
			return err
		}},
		{"a lock timeout", "undoes its statement", 1205, func(tx *sql.Tx) error {
			other, err := s.db.Begin()
			if err != nil {
				t.Error(err)
			}
			defer other.Rollback()
			if _, err := other.Exec("UPDATE " + s.rows + " SET n = n + 1 WHERE id = 1"); err != nil {
				t.Error(err)
			}
			_, err = tx.Exec("SELECT n FROM " + s.rows + " WHERE id = 1 FOR UPDATE NOWAIT")
			return err
		}},
		{"a deadlock", "undoes the transaction, and what follows would commit by itself", 1213, func(tx *sql.Tx) error {
			return s.deadlock(t, tx)
		}},
	}
}

type statementError struct {
	name, why string
	number    int
	strike    func(tx *sql.Tx) error
}

// deadlock lets tx be the victim of one: the other has changed more rows.
func (s till) deadlock(t *testing.T, tx *sql.Tx) error {
	other, err := s.db.Begin()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if _, err := tx.Exec("SELECT n FROM " + s.rows + " WHERE id = 1 FOR UPDATE"); err != nil {
		return err
	}
	for range 20 {
		if _, err := other.Exec("INSERT INTO "+s.payments+" VALUES (?, 0)", make([]byte, 32)); err != nil {
			return err
		}
	}
	if _, err := other.Exec("UPDATE " + s.rows + " SET n = n + 1 WHERE id = 2"); err != nil {
		return err
	}
	wg.Go(func() {
		defer other.Rollback()
		if _, err := other.Exec("UPDATE " + s.rows + " SET n = n + 1 WHERE id = 1"); err != nil {
			t.Errorf("the other was the victim: %v", err)
		}
	})
	_, err = tx.Exec("UPDATE " + s.rows + " SET n = n + 1 WHERE id = 2")
	return err
}

// Work swallows an error and goes on: neither half of what it did is kept, not
// what came before, nor what came after, and no result is.
func TestSwallowedErrorOfAnyKindCommitsNothing(t *testing.T) {
	t.Parallel()
	s := newTill(t, newDB(t, serverDSN(t)))
	for _, row := range s.errorsOfStatements(t) {
		t.Run(row.name, func(t *testing.T) {
			k := newKey()
			_, _, err := sqlstore.Do(t.Context(), s.engine, callOf(k), func(ctx context.Context, tx *sql.Tx) (string, error) {
				if err := s.payIn(ctx, tx, k); err != nil {
					t.Error(err)
				}
				if err := row.strike(tx); err == nil || !strings.Contains(err.Error(), fmt.Sprint(row.number)) {
					t.Errorf("%v, want %d: nothing is tested", err, row.number)
				}
				if err := s.payIn(ctx, tx, k); err != nil {
					t.Error(err)
				}
				return "receipt", nil
			})
			if err == nil || s.paid(t, s.db, k) != 0 {
				t.Errorf("%v and %d payments, want an error and none: it %s", err, s.paid(t, s.db, k), row.why)
			}
			if state := s.state(t, s.engine.Digest(callOf(k).Key)); state != ibid.Absent {
				t.Errorf("the key is %v", state)
			}
		})
	}
}

// Work that swallows an error and then undoes its writes leaves a refusal
// that is kept.
func TestRefusalAfterAFailedStatementIsKept(t *testing.T) {
	t.Parallel()
	s := newTill(t, newDB(t, serverDSN(t)))
	k := newKey()
	errPaid := errors.New("paid before")
	for range 2 {
		_, _, err := sqlstore.Do(t.Context(), s.engine, callOf(k), func(ctx context.Context, tx *sql.Tx) (string, error) {
			if err := s.payIn(ctx, tx, k); err != nil {
				return "", err
			}
			if _, err := tx.Exec("INSERT INTO " + s.rows + " VALUES (1, 1)"); err != nil {
				return "", ibid.Final(errPaid)
			}
			return "receipt", nil
		})
		var final *ibid.FinalError
		if !errors.As(err, &final) || final.Message != errPaid.Error() || s.paid(t, s.db, k) != 0 {
			t.Errorf("%v, %d payments", err, s.paid(t, s.db, k))
		}
	}
}

// A deadlock that the work reports runs the transaction again.
func TestDeadlockRunsTheTransactionAgain(t *testing.T) {
	t.Parallel()
	s := newTill(t, newDB(t, serverDSN(t)))
	k, runs := newKey(), 0
	got, _, err := sqlstore.Do(t.Context(), s.engine, callOf(k), func(ctx context.Context, tx *sql.Tx) (string, error) {
		if err := s.payIn(ctx, tx, k); err != nil {
			return "", err
		}
		if runs++; runs == 1 {
			return "", s.deadlock(t, tx)
		}
		return "receipt", nil
	})
	if err != nil || got != "receipt" || runs != 2 || s.paid(t, s.db, k) != 1 {
		t.Errorf("%q, %v, %d runs, %d payments", got, err, runs, s.paid(t, s.db, k))
	}
}

// A statement that commits by itself takes the transaction apart: what it
// committed stands, and so does the claim, so that the work does not run again.
func TestImplicitCommitIsRefusedAndNotRunAgain(t *testing.T) {
	t.Parallel()
	s := newTill(t, newDB(t, serverDSN(t)))
	k, runs := newKey(), 0
	for range 2 {
		_, _, err := sqlstore.Do(t.Context(), s.engine, callOf(k), func(ctx context.Context, tx *sql.Tx) (string, error) {
			runs++
			if err := s.payIn(ctx, tx, k); err != nil {
				return "", err
			}
			_, err := tx.ExecContext(ctx, "ALTER TABLE "+s.rows+" COMMENT 'commits'")
			return "receipt", err
		})
		if err == nil {
			t.Error("it succeeded")
		}
		if runs == 1 {
			s.engine = impatient(t, s.store)
		}
	}
	if runs != 1 || s.paid(t, s.db, k) != 1 {
		t.Errorf("%d runs, %d payments", runs, s.paid(t, s.db, k))
	}
}

func impatient(t *testing.T, s ibid.Store) *ibid.Engine {
	t.Helper()
	e, err := ibid.New(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The reply to COMMIT is lost: the record says that it was applied, and the
// work does not run again.
func TestReplyOfCommitLost(t *testing.T) {
	t.Parallel()
	dsn := serverDSN(t)
	direct := newDB(t, dsn)
	proxy, db := behind(t, dsn)
	s := newTill(t, db)
	k, runs := newKey(), 0
	work := func(ctx context.Context, tx *sql.Tx) (string, error) {
		runs++
		proxy.SwallowReply(func(sent []byte) bool { return bytes.Contains(sent, []byte("COMMIT")) })
		return "receipt", s.payIn(ctx, tx, k)
	}
	got, _, err := sqlstore.Do(t.Context(), s.engine, callOf(k), work)
	if proxy.Fired() != 1 {
		t.Fatalf("%d replies lost", proxy.Fired())
	}
	if err != nil || got != "receipt" || runs != 1 || s.paid(t, direct, k) != 1 {
		t.Errorf("%q, %v, %d runs, %d payments", got, err, runs, s.paid(t, direct, k))
	}
}

// The session dies before COMMIT: nothing is kept, and the next call runs.
func TestSessionKilledBeforeCommit(t *testing.T) {
	t.Parallel()
	s := newTill(t, newDB(t, serverDSN(t)))
	k, runs := newKey(), 0
	work := func(ctx context.Context, tx *sql.Tx) (string, error) {
		if runs++; runs == 1 {
			var id int
			if err := tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				return "", err
			}
			defer func() { _, _ = s.db.Exec(fmt.Sprintf("KILL %d", id)) }()
		}
		return "receipt", s.payIn(ctx, tx, k)
	}
	if _, _, err := sqlstore.Do(t.Context(), s.engine, callOf(k), work); !errors.Is(err, ibid.ErrUnavailable) || s.paid(t, s.db, k) != 0 {
		t.Errorf("%v, %d payments", err, s.paid(t, s.db, k))
	}
	got, _, err := sqlstore.Do(t.Context(), s.engine, callOf(k), work)
	if err != nil || got != "receipt" || runs != 2 || s.paid(t, s.db, k) != 1 {
		t.Errorf("%q, %v, %d runs, %d payments", got, err, runs, s.paid(t, s.db, k))
	}
}

// Another transaction holds the key: who asks waits as long as it said, and its
// connection is as good as new afterwards.
func TestWaitForTheTransactionThatHoldsTheKey(t *testing.T) {
	t.Parallel()
	db := newDB(t, serverDSN(t))
	s, _ := openNew(t, db)
	for _, row := range []struct {
		name, why string
		stands    bool // a released record, so that the row is there before
		wait      time.Duration
		held      time.Duration // 0: for longer than wait
		want      ibid.State
	}{
		{"not at all", "the caller is told to come again", false, 0, 0, ibid.InProgress},
		{"a part of a second", "MySQL itself counts in seconds", false, 300 * time.Millisecond, 0, ibid.InProgress},
		{"seconds and a part", "the server waits for the seconds", false, 1200 * time.Millisecond, 0, ibid.InProgress},
		{"until it commits", "the answer is there", false, 10 * time.Second, 200 * time.Millisecond, ibid.Completed},
		{"not at all, where a record stands", "the update would wait as the insert does", true, 0, 0, ibid.InProgress},
		{"until it commits, where a record stands", "the answer is there", true, 10 * time.Second, 200 * time.Millisecond, ibid.Completed},
	} {
		t.Run(row.name, func(t *testing.T) {
			k, c := newKey(), newClaim()
			if row.stands {
				k, c = mustBegin(t, s)
				if err := s.Release(t.Context(), k, c.Token); err != nil {
					t.Fatal(err)
				}
			}
			holder, _, err := s.BeginTx(t.Context(), k, c, 0)
			if err != nil || holder == nil {
				t.Fatalf("%v, %v", holder, err)
			}
			var wg sync.WaitGroup
			if row.held > 0 {
				wg.Go(func() {
					time.Sleep(row.held)
					if err := holder.Commit(t.Context(), []byte("x"), keepHour, false); err != nil {
						t.Error(err)
					}
				})
			}
			other := newClaim()
			other.Fingerprint = c.Fingerprint
			began := time.Now()
			tx, rec, err := s.BeginTx(t.Context(), k, other, row.wait)
			took := time.Since(began)
			if err != nil || tx != nil || rec.State != row.want || rec.Fingerprint != c.Fingerprint {
				t.Errorf("%v, %v, %v, want %v: %s", tx, rec.State, err, row.want, row.why)
			}
			if low := min(row.wait, max(row.held, row.wait*9/10)); took < low && row.held == 0 || took > row.wait+row.held+2*time.Second {
				t.Errorf("it took %v, want about %v: %s", took, row.wait, row.why)
			}
			wg.Wait()
			if err := holder.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	asNew(t, db)
}

// asNew checks the settings of all connections that lie idle in the pool.
func asNew(t *testing.T, db *sql.DB) {
	t.Helper()
	for range db.Stats().Idle {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() // in the end, so that each is another
		var auto, open bool
		var wait, global int
		if err := conn.QueryRowContext(t.Context(), "SELECT @@autocommit, @@in_transaction, @@innodb_lock_wait_timeout, @@global.innodb_lock_wait_timeout").Scan(&auto, &open, &wait, &global); err != nil || !auto || open || wait != global {
			t.Errorf("a connection came back with autocommit %v, in a transaction %v, lock wait %d of %d, %v", auto, open, wait, global, err)
		}
	}
}

// Whatever becomes of a transaction, its connection comes back as it was, or not
// at all.
func TestConnectionsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	db := newDB(t, serverDSN(t))
	s := newTill(t, db)
	for _, end := range []error{nil, errors.New("no"), ibid.Final(errors.New("refused"))} {
		k := newKey()
		_, _, _ = sqlstore.Do(t.Context(), s.engine, callOf(k), func(ctx context.Context, tx *sql.Tx) (string, error) {
			return "receipt", errors.Join(end, s.payIn(ctx, tx, k))
		})
	}
	if db.Stats().Idle == 0 {
		t.Fatal("no connection came back: nothing is tested")
	}
	asNew(t, db)
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are still held", n)
	}
}

// Twenty processes' worth of first calls of one key meet, and the first is
// rolled back: the inserts that waited must not end each other for good.
func TestWaitersSurviveARollback(t *testing.T) {
	t.Parallel()
	db := newDB(t, serverDSN(t))
	db.SetMaxOpenConns(50)
	s, _ := openNew(t, db)
	k, c := newKey(), newClaim()
	holder, _, err := s.BeginTx(t.Context(), k, c, 0)
	if err != nil || holder == nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var won, lost atomic.Int64
	for range 20 {
		wg.Go(func() {
			own := newClaim()
			own.Fingerprint = c.Fingerprint
			tx, rec, err := s.BeginTx(t.Context(), k, own, 30*time.Second)
			switch {
			case err != nil:
				t.Error(err)
			case tx != nil:
				won.Add(1)
				if err := tx.Commit(t.Context(), []byte("x"), keepHour, false); err != nil {
					t.Error(err)
				}
			case rec.State == ibid.Completed:
				lost.Add(1)
			default:
				t.Errorf("%v", rec.State)
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, func() { _ = holder.Rollback(context.Background()) })
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 19 {
		t.Errorf("%d ran, %d were answered", won.Load(), lost.Load())
	}
}
