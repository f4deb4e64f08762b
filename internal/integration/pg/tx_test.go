package pg_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/pgxstore"
)

// shop is a table of payments beside a store.
type shop struct {
	pool     *pgxpool.Pool
	store    *pgxstore.Store
	payments string
}

func newShop(t *testing.T, pool *pgxpool.Pool) shop {
	t.Helper()
	s, table := openNew(t, pool)
	name := table + "_payments"
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+name+" (key bytea)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), "DROP TABLE IF EXISTS "+name) })
	return shop{pool, s, name}
}

// pay adds a payment and completes the claim in one transaction.
func (s shop) pay(t *testing.T, k ibid.Digest, token ibid.Token, between func(pgx.Tx) error) error {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		return err
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "INSERT INTO "+s.payments+" VALUES ($1)", k[:]); err != nil {
		return err
	}
	if between != nil {
		if err := between(tx); err != nil {
			return err
		}
	}
	if err := s.store.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: token, Result: []byte("receipt"), Keep: keepHour}); err != nil {
		return err
	}
	return tx.Commit(t.Context())
}

func (s shop) paid(t *testing.T, pool *pgxpool.Pool, k ibid.Digest) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+s.payments+" WHERE key = $1", k[:]).Scan(&n); err != nil {
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
	s := newShop(t, newPool(t, serverURL(t)))
	k, c := mustBegin(t, s.store)
	stop := errors.New("stop")
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: c.Token, Result: []byte("receipt"), Keep: keepHour}); err != nil {
		t.Fatal(err)
	}
	if got := s.state(t, k); got != ibid.InProgress {
		t.Errorf("before the commit: %v", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.state(t, k); got != ibid.InProgress {
		t.Errorf("after a rollback: %v", got)
	}
	if err := s.pay(t, k, c.Token, func(pgx.Tx) error { return stop }); !errors.Is(err, stop) || s.paid(t, s.pool, k) != 0 {
		t.Errorf("%v, %d payments", err, s.paid(t, s.pool, k))
	}
	if err := s.pay(t, k, c.Token, nil); err != nil || s.paid(t, s.pool, k) != 1 || s.state(t, k) != ibid.Completed {
		t.Errorf("%v, %d payments, %v", err, s.paid(t, s.pool, k), s.state(t, k))
	}
	lost, l := mustBegin(t, s.store)
	if err := s.store.Forget(t.Context(), lost, l.Token, 1e9); err != nil {
		t.Fatal(err)
	}
	if err := s.pay(t, lost, l.Token, nil); !errors.Is(err, ibid.ErrClaimLost) || s.paid(t, s.pool, lost) != 0 {
		t.Errorf("after the claim was lost: %v, %d payments", err, s.paid(t, s.pool, lost))
	}
}

// The reply of COMMIT is lost: the key says what became of it, and the effect is
// there once.
func TestCommitWithoutReply(t *testing.T) {
	t.Parallel()
	direct := newPool(t, serverURL(t))
	proxy, pool := behind(t, serverURL(t))
	s := newShop(t, direct)
	s.pool = pool
	warm, w := mustBegin(t, s.store)
	if err := s.pay(t, warm, w.Token, nil); err != nil {
		t.Fatal(err)
	}
	k, c := mustBegin(t, s.store)
	proxy.SwallowReply(func(sent []byte) bool { return bytes.Contains(bytes.ToLower(sent), []byte("commit")) })
	if err := s.pay(t, k, c.Token, nil); err == nil || proxy.Fired() != 1 {
		t.Fatalf("%v, %d replies lost", err, proxy.Fired())
	}
	// Whoever runs the whole transaction again is stopped.
	if err := s.pay(t, k, c.Token, nil); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("again: %v, want ErrClaimLost", err)
	}
	if got := s.state(t, k); got != ibid.Completed || s.paid(t, direct, k) != 1 {
		t.Errorf("%v, %d payments: want the completed one", got, s.paid(t, direct, k))
	}
}

// The server ends the connection before COMMIT: nothing is kept, and the claim
// still stands.
func TestBackendTerminatedBeforeCommit(t *testing.T) {
	t.Parallel()
	s := newShop(t, newPool(t, serverURL(t)))
	k, c := mustBegin(t, s.store)
	err := s.pay(t, k, c.Token, func(tx pgx.Tx) error {
		_, err := s.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1, 5000)", int32(tx.Conn().PgConn().PID()))
		return err
	})
	if err == nil || s.state(t, k) != ibid.InProgress || s.paid(t, s.pool, k) != 0 {
		t.Errorf("%v, %v, %d payments", err, s.state(t, k), s.paid(t, s.pool, k))
	}
	if err := s.pay(t, k, c.Token, nil); err != nil || s.paid(t, s.pool, k) != 1 {
		t.Errorf("again: %v, %d payments", err, s.paid(t, s.pool, k))
	}
}

// A transaction that a statement has failed in can only be rolled back, and its
// commit says so.
func TestSwallowedErrorIsNoSuccess(t *testing.T) {
	t.Parallel()
	s := newShop(t, newPool(t, serverURL(t)))
	k, c := mustBegin(t, s.store)
	swallow := func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT 1/0"); err == nil {
			t.Error("the statement did not fail")
		}
		return nil
	}
	if err := s.pay(t, k, c.Token, swallow); err == nil {
		t.Error("CompleteTx in an aborted transaction has succeeded")
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: c.Token, Result: []byte("receipt"), Keep: keepHour}); err != nil {
		t.Fatal(err)
	}
	_ = swallow(tx)
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("Commit: %v, want ErrTxCommitRollback", err)
	}
	if s.state(t, k) != ibid.InProgress || s.paid(t, s.pool, k) != 0 {
		t.Errorf("%v, %d payments", s.state(t, k), s.paid(t, s.pool, k))
	}
}

// Two transactions take two keys in opposite order: the server undoes one as a
// whole, and its user runs it again.
func TestDeadlockUndoesTheWholeTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t, newPool(t, serverURL(t)))
	var keys [2]ibid.Digest
	var claims [2]ibid.Claim
	for i := range keys {
		keys[i], claims[i] = mustBegin(t, s.store)
	}
	both := func(order [2]int, met func()) error {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			return err
		}
		defer tx.Rollback(context.Background())
		for n, i := range order {
			if n == 1 {
				met()
			}
			if _, err := tx.Exec(t.Context(), "INSERT INTO "+s.payments+" VALUES ($1)", keys[i][:]); err != nil {
				return err
			}
			if err := s.store.CompleteTx(t.Context(), tx, ibid.Completion{Key: keys[i], Token: claims[i].Token, Result: []byte("receipt"), Keep: keepHour}); err != nil {
				return err
			}
		}
		return tx.Commit(t.Context())
	}
	var ready, wg sync.WaitGroup
	ready.Add(2)
	var errs [2]error
	for i, order := range [][2]int{{0, 1}, {1, 0}} {
		wg.Go(func() { errs[i] = both(order, func() { ready.Done(); ready.Wait() }) })
	}
	wg.Wait()
	undone := 0
	for _, err := range errs {
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == "40P01":
			undone++
		case err != nil:
			t.Error(err)
		}
	}
	if undone != 1 {
		t.Fatalf("%d undone by the server: %v", undone, errs)
	}
	for _, k := range keys {
		if s.state(t, k) != ibid.Completed || s.paid(t, s.pool, k) != 1 {
			t.Errorf("%v, %d payments", s.state(t, k), s.paid(t, s.pool, k))
		}
	}
	// Run again, it must not make its writes twice.
	if err := both([2]int{1, 0}, func() {}); !errors.Is(err, ibid.ErrClaimLost) || s.paid(t, s.pool, keys[0]) != 1 {
		t.Errorf("again: %v, %d payments", err, s.paid(t, s.pool, keys[0]))
	}
}
