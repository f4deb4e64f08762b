package mysql_test

import (
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/steps"
)

var _ interface {
	ibid.Store
	ibid.TxStore
	ibid.Marker[*sql.Tx]
	ibid.Sweeper
	ibid.Inspector
	ibid.Checkpointer
	ibid.Notifier
	ibid.Describer
	steps.Transactor[*sql.Tx]
} = (*sqlstore.MySQL)(nil)

func newMark(k ibid.Digest) ibid.Mark {
	c := newClaim()
	c.Fingerprint = ibid.Fingerprint{1}
	return ibid.Mark{Key: k, Claim: c, Result: []byte("done"), Keep: keepHour}
}

// pay marks k and pays, in one transaction, unless the mark stands already.
func (s shop) payMarked(t *testing.T, k ibid.Digest, undo bool) error {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	m := newMark(k)
	recs, err := s.store.MarkTx(t.Context(), tx, []ibid.Mark{m})
	if err != nil {
		return err
	}
	if recs[0].State != ibid.Completed || recs[0].Token != m.Claim.Token {
		return ibid.ErrDuplicate
	}
	if _, err := tx.Exec("INSERT INTO "+s.payments+" VALUES (?, 1)", k[:]); err != nil || undo {
		return err
	}
	return tx.Commit()
}

// A mark and its payment are there together, once, however many deliver the
// message, and after one that was rolled back.
func TestMarkTxHoldsOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, newDB(t, serverDSN(t)))
	released, c := mustBegin(t, s.store)
	if err := s.store.Release(t.Context(), released, c.Token); err != nil {
		t.Fatal(err)
	}
	for _, k := range []ibid.Digest{newKey(), released} {
		if err := s.payMarked(t, k, true); err != nil || s.paid(t, s.db, k) != 0 {
			t.Fatalf("rolled back: %v, %d payments", err, s.paid(t, s.db, k))
		}
		var marked, again atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for {
					err := s.payMarked(t, k, false)
					switch {
					case err == nil:
						marked.Add(1)
					case errors.Is(err, ibid.ErrTxAgain):
						again.Add(1)
						continue
					case !errors.Is(err, ibid.ErrDuplicate):
						t.Error(err)
					}
					return
				}
			})
		}
		wg.Wait()
		if marked.Load() != 1 || s.paid(t, s.db, k) != 1 || s.state(t, k) != ibid.Completed {
			t.Errorf("%d marks, %d payments, %v", marked.Load(), s.paid(t, s.db, k), s.state(t, k))
		}
	}
}

// A transaction that a deadlock has ended marks nothing.
func TestMarkTxRefusesAnEndedTransaction(t *testing.T) {
	t.Parallel()
	s := newTill(t, newDB(t, serverDSN(t)))
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := s.deadlock(t, tx); err == nil {
		t.Fatal("no deadlock: nothing is tested")
	}
	k := newKey()
	if _, err := s.store.MarkTx(t.Context(), tx, []ibid.Mark{newMark(k)}); err == nil || s.state(t, k) != ibid.Absent {
		t.Errorf("%v, and the key is %v", err, s.state(t, k))
	}
}

// The server stands still while a transaction is to be committed: its end waits
// no longer than its context.
func TestPausedServerHoldsNoCommit(t *testing.T) {
	t.Parallel()
	server := private(t)
	s, _ := openNew(t, newDB(t, server.DSN))
	k, c := newKey(), newClaim()
	tx, _, err := s.BeginTx(t.Context(), k, c, 0)
	if err != nil || tx == nil {
		t.Fatal(err)
	}
	pause(t, server)
	ctx, cancel := contextOf(t, 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	ended := tx.Commit(ctx, []byte("x"), keepHour, false)
	if ended == nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", ended, time.Since(began))
	}
	if tx, _, err := s.BeginTx(ctx, k, c, 0); err == nil || tx != nil || time.Since(began) > 10*time.Second {
		t.Errorf("BeginTx: %v after %v", err, time.Since(began))
	}
	resume(t, server)
	r, err := s.Look(t.Context(), k)
	// A server does not stop at once: it may have got as far as COMMIT.
	if err != nil || r.State != ibid.Absent && !errors.Is(ended, ibid.ErrCommitUnknown) {
		t.Errorf("%v, %v, and Commit said %v", r.State, err, ended)
	}
}
