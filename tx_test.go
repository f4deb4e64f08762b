package ibid_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
	"github.com/ibid-go/ibid/memstore"
)

// database is a TxStore in memory, with one table beside the records: what was
// charged. A key is locked from BeginTx to the end of the transaction.
type database struct {
	ibid.Store // of lease mode; not used by these tests

	mu      sync.Mutex
	records map[ibid.Digest]record.Record
	locks   map[ibid.Digest]chan struct{}
	charges []string
	begun   int                // transactions that were opened
	open    atomic.Int64       // transactions that are open
	most    int64              // the most that were open at one time
	commit  func() (err error) // runs before COMMIT is applied, when set
	reply   func() (err error) // replaces the reply to COMMIT, when set
}

type dbTx struct {
	db      *database
	key     ibid.Digest
	token   ibid.Token
	rec     record.Record
	charges []string
	ended   bool
}

type dbKey struct{}

var errSerialization = errors.New("40001")

func (db *database) Begin(context.Context, ibid.Digest, ibid.Claim) (ibid.Record, error) {
	panic("lease mode")
}

func (db *database) Look(_ context.Context, key ibid.Digest) (ibid.Record, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	r := db.records[key]
	return r.View(time.Now().UnixNano()), nil
}

func (db *database) BeginTx(ctx context.Context, key ibid.Digest, claim ibid.Claim, wait time.Duration) (ibid.Tx, ibid.Record, error) {
	db.mu.Lock()
	db.begun++
	if db.records == nil {
		db.records, db.locks = map[ibid.Digest]record.Record{}, map[ibid.Digest]chan struct{}{}
	}
	lock := db.locks[key]
	if lock == nil {
		lock = make(chan struct{}, 1)
		db.locks[key] = lock
	}
	db.most = max(db.most, db.open.Add(1))
	db.mu.Unlock()
	select {
	case lock <- struct{}{}:
	default:
		select {
		case lock <- struct{}{}:
		case <-time.After(max(wait, 0)):
			db.open.Add(-1)
			return nil, ibid.Record{State: ibid.InProgress, Fingerprint: claim.Fingerprint}, nil
		case <-ctx.Done():
			db.open.Add(-1)
			return nil, ibid.Record{}, ctx.Err()
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	now := time.Now().UnixNano()
	r := db.records[key]
	r.Begin(claim, now)
	view := r.View(now)
	if !view.OwnedBy(claim.Token) {
		<-lock
		db.open.Add(-1)
		return nil, view, nil
	}
	return &dbTx{db: db, key: key, token: claim.Token, rec: r}, view, nil
}

func (tx *dbTx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, dbKey{}, tx)
}

func (tx *dbTx) Commit(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	defer tx.Rollback(ctx)
	if tx.db.commit != nil {
		if err := tx.db.commit(); err != nil {
			return err
		}
	}
	tx.db.mu.Lock()
	if _, err := tx.rec.Complete(tx.token, result, keep, time.Now().UnixNano()); err != nil {
		tx.db.mu.Unlock()
		return err
	}
	tx.db.records[tx.key] = tx.rec
	if !undo {
		tx.db.charges = append(tx.db.charges, tx.charges...)
	}
	tx.db.mu.Unlock()
	if tx.db.reply != nil {
		return tx.db.reply()
	}
	return nil
}

func (tx *dbTx) Rollback(context.Context) error {
	if !tx.ended {
		tx.ended = true
		tx.db.open.Add(-1)
		<-tx.db.locks[tx.key]
	}
	return nil
}

func (tx *dbTx) Again(err error) bool { return errors.Is(err, errSerialization) }

// charges is work that writes a charge in its transaction and then ends as
// after says.
func charges(runs *atomic.Int64, after func(context.Context) error) ibid.Work {
	return func(ctx context.Context) ([]byte, error) {
		tx := ctx.Value(dbKey{}).(*dbTx)
		tx.charges = append(tx.charges, "3000 TWD")
		runs.Add(1)
		if after != nil {
			if err := after(ctx); err != nil {
				return nil, err
			}
		}
		return []byte("receipt"), nil
	}
}

func txEngine(t *testing.T) (*ibid.Engine, *database, ibid.Call) {
	t.Helper()
	db := &database{}
	e := newEngine(t, new(memstore.Store), nil).Over(db)
	call := order
	call.Tx = db
	return e, db, call
}

// How work in a transaction ended: what stands in the database, and what the
// next caller gets.
func TestHowTransactionsEnd(t *testing.T) {
	t.Parallel()
	errDeclined := errors.New("declined")
	for _, tc := range []struct {
		name, why string
		after     func(context.Context) error
		first     error
		charges   int // after the first call
		runs      int64
	}{
		{"success commits writes and result", "the order would be lost", nil, nil, 1, 1},
		{
			"a final error commits the result alone", "a refused order would be written, or asked for again",
			func(context.Context) error { return ibid.Final(errDeclined) }, errDeclined, 0, 1,
		},
		{
			"undone writes leave the result", "a kept 4xx would leave half an order behind",
			func(ctx context.Context) error { ibid.UndoWrites(ctx); return nil }, nil, 0, 1,
		},
		{
			"another error leaves nothing", "a failed attempt would block its own retry",
			func(context.Context) error { return errDeclined }, errDeclined, 0, 2,
		},
		{
			"a cancelled attempt leaves nothing", "in a transaction nothing is unknown",
			func(context.Context) error { return context.Canceled }, context.Canceled, 0, 2,
		},
		{
			"an effect elsewhere stays unknown", "what is outside of the transaction does not roll back",
			func(ctx context.Context) error { ibid.EffectStarted(ctx); return errDeclined }, ibid.ErrUnknown, 0, 2,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, db, call := txEngine(t)
			var runs atomic.Int64
			_, _, err := e.Do(t.Context(), call, charges(&runs, tc.after))
			if !errors.Is(err, tc.first) || len(db.charges) != tc.charges {
				t.Fatalf("first call: %v and %d charges, want %v and %d: %s", err, len(db.charges), tc.first, tc.charges, tc.why)
			}
			e.Do(t.Context(), call, charges(&runs, nil))
			if runs.Load() != tc.runs || db.open.Load() != 0 {
				t.Fatalf("%d runs in all, %d transactions left open: %s", runs.Load(), db.open.Load(), tc.why)
			}
		})
	}
}

func TestPanicInATransactionRollsBack(t *testing.T) {
	t.Parallel()
	e, db, call := txEngine(t)
	var runs atomic.Int64
	func() {
		defer func() { _ = recover() }()
		e.Do(t.Context(), call, charges(&runs, func(context.Context) error { panic("boom") }))
	}()
	if len(db.charges) != 0 || db.open.Load() != 0 {
		t.Fatalf("%d charges, %d open", len(db.charges), db.open.Load())
	}
	must(t, e, call, charges(&runs, nil))
}

// The reply to COMMIT is lost: the record says what became of it, and the work
// does not run again.
func TestCommitOutcomeIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		applied bool
		want    error
	}{{"applied", true, nil}, {"not applied", false, ibid.ErrUnavailable}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, db, call := txEngine(t)
				lost := func() error { return ibid.ErrCommitUnknown }
				if tc.applied {
					db.reply = lost
				} else {
					db.commit = lost
				}
				var runs atomic.Int64
				data, _, err := e.Do(t.Context(), call, charges(&runs, nil))
				if !errors.Is(err, tc.want) || runs.Load() != 1 || err == nil && string(data) != "receipt" {
					t.Fatalf("%q %v after %d runs", data, err, runs.Load())
				}
				db.reply, db.commit = nil, nil
				if data, _ := must(t, e, call, charges(&runs, nil)); data != "receipt" || len(db.charges) != 1 {
					t.Fatalf("%q, %d charges", data, len(db.charges))
				}
			})
		})
	}
}

func TestSerializationFailureRunsTheTransactionAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		where string
		times int
		runs  int64
		want  error
	}{
		{"in the work", 2, 3, nil},
		{"in the work", 100, 4, ibid.ErrUnavailable},
		{"at COMMIT", 2, 3, nil},
		{"at COMMIT", 100, 4, ibid.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, db, call := txEngine(t)
			var runs atomic.Int64
			left := tc.times
			fail := func(err error) error {
				if left--; left >= 0 {
					return err
				}
				return nil
			}
			var after func(context.Context) error
			if tc.where == "at COMMIT" {
				db.commit = func() error { return fail(ibid.ErrTxAgain) }
			} else {
				after = func(context.Context) error { return fail(errSerialization) }
			}
			_, _, err := e.Do(t.Context(), call, charges(&runs, after))
			if !errors.Is(err, tc.want) || runs.Load() != tc.runs || len(db.charges) != map[bool]int{true: 1}[tc.want == nil] {
				t.Errorf("%d failures %s: %v, %d runs, %d charges", tc.times, tc.where, err, runs.Load(), len(db.charges))
			}
		})
	}
}

// A storm on one key: one transaction runs, the duplicates wait in memory and
// not on connections of the pool.
func TestStormHoldsFewTransactions(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			e, db, call := txEngine(t)
			call.Policy = &ibid.Policy{Wait: wait}
			var runs, same, busy atomic.Int64
			var wg sync.WaitGroup
			for range 500 {
				wg.Go(func() {
					data, _, err := e.Do(t.Context(), call, charges(&runs, func(context.Context) error {
						time.Sleep(time.Second)
						return nil
					}))
					switch {
					case err == nil && string(data) == "receipt":
						same.Add(1)
					case errors.Is(err, ibid.ErrInProgress):
						busy.Add(1)
					default:
						t.Errorf("%q %v", data, err)
					}
				})
			}
			wg.Wait()
			if runs.Load() != 1 || len(db.charges) != 1 || db.most > 2 || wait > 0 && same.Load() != 500 || wait == 0 && busy.Load() != 499 {
				t.Errorf("Wait %v: %d runs, %d answers, %d busy, at most %d transactions at one time", wait, runs.Load(), same.Load(), busy.Load(), db.most)
			}
		})
	}
}

// A caller that goes away during COMMIT does not cancel it.
func TestCommitIsDetached(t *testing.T) {
	t.Parallel()
	e, db, call := txEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	var runs atomic.Int64
	_, _, err := e.Do(ctx, call, charges(&runs, func(context.Context) error { cancel(); return nil }))
	if err != nil || !slices.Equal(db.charges, []string{"3000 TWD"}) {
		t.Fatalf("%v %v", err, db.charges)
	}
}

func TestEveryCallInATransactionEndsOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		want  ibid.EventKind
		after func(runs int64) error
		reply func() error
	}{
		{"a serialization failure is no ending", ibid.EventCompleted, func(runs int64) error {
			if runs < 3 {
				return errSerialization
			}
			return nil
		}, nil},
		{"one that does not go away frees the key", ibid.EventReleased, func(int64) error { return errSerialization }, nil},
		{"so does one that COMMIT reports", ibid.EventReleased, nil, func() error { return ibid.ErrTxAgain }},
		{"a reported failure frees it", ibid.EventReleased, func(int64) error { return errCut }, nil},
		{"a panic does, too", ibid.EventReleased, func(int64) error { panic("charged") }, nil},
		{"a COMMIT that cannot be told is not recorded", ibid.EventNotRecorded, nil, func() error { return ibid.ErrCommitUnknown }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := new(endings)
				db := &database{}
				if tc.reply != nil {
					db.commit = tc.reply
				}
				e := newEngine(t, new(memstore.Store), &ibid.Options{Observe: []func(context.Context, ibid.Event){n.observe}}).Over(db)
				call := order
				call.Tx = db
				if tc.want == ibid.EventNotRecorded {
					db.commit = func() error { // and the server still works on it
						lock := db.locks[e.Digest(order.Key)]
						go func() { lock <- struct{}{} }() // in the moment that Rollback unlocks
						synctest.Wait()
						return ibid.ErrCommitUnknown
					}
				}
				var runs atomic.Int64
				func() {
					defer func() { recover() }()
					_, _, err := e.Do(t.Context(), call, charges(&runs, func(context.Context) error {
						if tc.after == nil {
							return nil
						}
						return tc.after(runs.Load())
					}))
					if err != nil && strings.ContainsAny(err.Error(), "%!\n") {
						t.Errorf("the text of the error is %q", err)
					}
				}()
				if got := n.take(); len(got) != 1 || got[0] != tc.want {
					t.Errorf("ended as %v, want %v", got, tc.want)
				}
			})
		})
	}
}
