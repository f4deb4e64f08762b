package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// shop is a table of payments beside a store.
type shop struct {
	db       *sql.DB
	store    *sqlstore.MySQL
	payments string
}

func newShop(t *testing.T, db *sql.DB) shop {
	t.Helper()
	s, table := openNew(t, db)
	name := table + "_payments"
	if _, err := db.Exec("CREATE TABLE " + name + " (`key` BINARY(32), n INT) ENGINE = InnoDB"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = db.Exec("DROP TABLE IF EXISTS " + name) })
	return shop{db, s, name}
}

// pay adds a payment and completes the claim in one transaction.
func (s shop) pay(t *testing.T, k ibid.Digest, token ibid.Token, between func(*sql.Tx)) error {
	t.Helper()
	tx, err := s.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec("INSERT INTO "+s.payments+" VALUES (?, 1)", k[:]); err != nil {
		return err
	}
	if between != nil {
		between(tx)
	}
	if err := s.store.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: token, Result: []byte("receipt"), Keep: keepHour}); err != nil {
		return err
	}
	return tx.Commit()
}

func (s shop) paid(t *testing.T, db *sql.DB, k ibid.Digest) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM "+s.payments+" WHERE `key` = ?", k[:]).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s shop) state(t *testing.T, k ibid.Digest) ibid.State {
	t.Helper()
	r, err := s.store.Look(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return r.State
}

func TestCompleteTxStandsAndFallsWithItsTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t, newDB(t, serverDSN(t)))
	k, c := mustBegin(t, s.store)
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: c.Token, Result: []byte("receipt"), Keep: keepHour}); err != nil {
		t.Fatal(err)
	}
	if got := s.state(t, k); got != ibid.InProgress {
		t.Errorf("before the commit: %v", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := s.state(t, k); got != ibid.InProgress {
		t.Errorf("after a rollback: %v", got)
	}
	if err := s.pay(t, k, c.Token, nil); err != nil || s.paid(t, s.db, k) != 1 || s.state(t, k) != ibid.Completed {
		t.Errorf("%v, %d payments, %v", err, s.paid(t, s.db, k), s.state(t, k))
	}
	if err := s.pay(t, k, c.Token, nil); !errors.Is(err, ibid.ErrClaimLost) || s.paid(t, s.db, k) != 1 {
		t.Errorf("run again: %v, %d payments", err, s.paid(t, s.db, k))
	}
}

// The reply of COMMIT is lost: the key says what became of it, and the effect is
// there once.
func TestCommitWithoutReply(t *testing.T) {
	t.Parallel()
	direct := newDB(t, serverDSN(t))
	proxy, db := behind(t, serverDSN(t))
	s := newShop(t, direct)
	s.db, s.store = db, open(t, db, &sqlstore.MySQLOptions{Table: strings.TrimSuffix(s.payments, "_payments")})
	k, c := mustBegin(t, s.store)
	proxy.SwallowReply(func(sent []byte) bool { return bytes.Contains(sent, []byte("COMMIT")) })
	if err := s.pay(t, k, c.Token, nil); err == nil || proxy.Fired() != 1 {
		t.Fatalf("%v, %d replies lost", err, proxy.Fired())
	}
	if err := s.pay(t, k, c.Token, nil); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("run again: %v", err)
	}
	if got := s.state(t, k); got != ibid.Completed || s.paid(t, direct, k) != 1 {
		t.Errorf("%v, %d payments: want the completed one", got, s.paid(t, direct, k))
	}
}

// A deadlock ends the transaction of work that swallows the error, and what
// it writes then is committed statement by statement: no result may be.
func TestSwallowedDeadlockRecordsNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t, newDB(t, serverDSN(t)))
	rows := s.payments + "_rows"
	if _, err := s.db.Exec("CREATE TABLE " + rows + " (id INT PRIMARY KEY, n INT) ENGINE = InnoDB"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.db.Exec("DROP TABLE IF EXISTS " + rows) })
	if _, err := s.db.Exec("INSERT INTO " + rows + " VALUES (1, 0), (2, 0)"); err != nil {
		t.Fatal(err)
	}
	var met, wg sync.WaitGroup
	met.Add(2)
	var undone [2]bool
	var errs [2]error
	for i := range 2 {
		k, c := mustBegin(t, s.store)
		wg.Go(func() {
			errs[i] = s.pay(t, k, c.Token, func(tx *sql.Tx) {
				_, _ = tx.Exec("UPDATE "+rows+" SET n = n + 1 WHERE id = ?", 1+i)
				met.Done()
				met.Wait()
				_, err := tx.Exec("UPDATE "+rows+" SET n = n + 1 WHERE id = ?", 2-i)
				var e *mysql.MySQLError
				undone[i] = errors.As(err, &e) && e.Number == 1213 // and goes on
			})
			want := ibid.Completed
			if undone[i] {
				want = ibid.InProgress
			}
			if got := s.state(t, k); got != want {
				t.Errorf("undone %v: %v, want %v", undone[i], got, want)
			}
		})
	}
	wg.Wait()
	if undone[0] == undone[1] {
		t.Fatalf("no deadlock: %v", errs)
	}
	for i := range 2 {
		if (errs[i] != nil) != undone[i] {
			t.Errorf("undone %v: %v", undone[i], errs[i])
		}
	}
}

// A lock timeout undoes its statement alone: the transaction goes on, and stands
// or falls as one.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	server := private(t, "innodb-lock-wait-timeout=1")
	s := newShop(t, newDB(t, server.DSN))
	k, c := mustBegin(t, s.store)
	holder, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.CompleteTx(t.Context(), holder, ibid.Completion{Key: k, Token: c.Token, Result: []byte("x"), Keep: keepHour}); err != nil {
		t.Fatal(err)
	}
	var number *mysql.MySQLError
	if err := s.store.Release(t.Context(), k, c.Token); !errors.As(err, &number) || number.Number != 1205 {
		t.Errorf("Release under a lock: %v", err)
	}
	err = s.pay(t, k, c.Token, nil)
	if !errors.As(err, &number) || number.Number != 1205 || s.paid(t, s.db, k) != 0 {
		t.Errorf("CompleteTx under a lock: %v, %d payments", err, s.paid(t, s.db, k))
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.pay(t, k, c.Token, nil); err != nil || s.paid(t, s.db, k) != 1 || s.state(t, k) != ibid.Completed {
		t.Errorf("then: %v, %d payments", err, s.paid(t, s.db, k))
	}
}

// A claim whose takeover waited for a lock gets its lease from when it was
// granted, not from when it was asked for.
func TestLeaseBeginsWhenItIsGranted(t *testing.T) {
	t.Parallel()
	s := newShop(t, newDB(t, serverDSN(t)))
	k, c := mustBegin(t, s.store)
	if err := s.store.Extend(t.Context(), k, c.Token, 0); err != nil {
		t.Fatal(err)
	}
	holder, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.CheckpointTx(t.Context(), holder, ibid.Checkpoint{Key: k, Token: c.Token, Steps: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	taker := newClaim()
	taker.Fingerprint, taker.Lease = c.Fingerprint, 2e9
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := s.store.Begin(t.Context(), k, taker)
		if err != nil || !r.OwnedBy(taker.Token) || r.Attempt != 2 || r.Vanished != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err = s.store.Look(t.Context(), k); err != nil || r.Lease < 1e9 {
			t.Errorf("%v of the lease are left, %v", r.Lease, err)
		}
	})
	if _, err := holder.Exec("SELECT SLEEP(1.5)"); err != nil {
		t.Fatal(err)
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}
