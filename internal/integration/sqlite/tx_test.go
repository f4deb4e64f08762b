package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
)

// A ledger is the application's own table, in the file of the store.
type ledger struct {
	*fixture
	engine *ibid.Engine
	runs   int
}

func newLedger(t *testing.T, params string) *ledger {
	t.Helper()
	l := &ledger{fixture: openWith(t, params, nil)}
	l.exec("CREATE TABLE charge (id TEXT)")
	var err error
	l.engine, err = ibid.New(t.Context(), l.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *ledger) charges() (n int) {
	l.t.Helper()
	if err := l.raw.QueryRow("SELECT count(*) FROM charge").Scan(&n); err != nil {
		l.t.Fatal(err)
	}
	return n
}

// charge runs work under one key, in a transaction that end ends.
func (l *ledger) charge(end func(ctx context.Context, tx *sql.Tx, c ibid.Completion) error) ([]byte, error) {
	call := ibid.Call{Key: ibid.Key{Scope: "s", ID: "charge"}}
	b, _, err := l.engine.Do(context.Background(), call, func(ctx context.Context) ([]byte, error) {
		l.runs++
		tx, err := l.db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO charge VALUES ('1')"); err != nil {
			return nil, err
		}
		c, err := ibid.Prepare(ctx, []byte("paid"))
		if err != nil {
			return nil, err
		}
		if err := end(ctx, tx, c); err != nil {
			return nil, err
		}
		return []byte("paid"), nil
	})
	return b, err
}

func (l *ledger) commit(ctx context.Context, tx *sql.Tx, c ibid.Completion) error {
	if err := l.CompleteTx(ctx, tx, c); err != nil {
		return err
	}
	return tx.Commit()
}

func TestCompleteTxCommitsResultAndEffectTogether(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "?_txlock=immediate")
	failed := errors.New("changed its mind")
	if _, err := l.charge(func(ctx context.Context, tx *sql.Tx, c ibid.Completion) error {
		return errors.Join(l.CompleteTx(ctx, tx, c), failed)
	}); !errors.Is(err, failed) || l.charges() != 0 {
		t.Fatalf("%v and %d charges, want neither", err, l.charges())
	}
	for range 3 {
		b, err := l.charge(l.commit)
		if err != nil || string(b) != "paid" {
			t.Errorf("%q, %v, want paid", b, err)
		}
	}
	if l.runs != 2 || l.charges() != 1 {
		t.Errorf("%d runs and %d charges, want 2 and 1", l.runs, l.charges())
	}
}

// The process dies after the commit, and before the engine has recorded: the
// transaction has.
func TestCompleteTxRecordsWithoutTheEngine(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "")
	k, c := l.owned()
	tx, err := l.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	done := ibid.Completion{Key: k, Token: c.Token, Result: []byte("paid"), Keep: ibid.Keep{Retain: long}}
	if err := l.CompleteTx(t.Context(), tx, done); err != nil {
		t.Fatal(err)
	}
	l.state(k, ibid.InProgress) // not committed yet
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if r := l.state(k, ibid.Completed); string(r.Result) != "paid" {
		t.Errorf("result %q", r.Result)
	}

	// The reply to COMMIT was lost, and the work runs its transaction again: the
	// effect must not be written twice.
	again, err := l.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Rollback()
	if err := l.CompleteTx(t.Context(), again, done); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("a second transaction of the same attempt: %v, want ErrClaimLost", err)
	}
}

func TestCompleteTxRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		params string
		// before happens between the claim and CompleteTx.
		before func(l *ledger, tx *sql.Tx, k ibid.Digest, c ibid.Claim) error
		want   error
		says   string
		why    string
	}{
		{"a claim that was taken over", "", func(l *ledger, _ *sql.Tx, k ibid.Digest, c ibid.Claim) error {
			next := newClaim()
			next.MaxTakeovers = -1
			err := l.Extend(l.t.Context(), k, c.Token, 0)
			l.begin(k, next)
			return err
		}, ibid.ErrClaimLost, "", "both attempts would have their effect"},
		{"a claim that is forgotten", "", func(l *ledger, _ *sql.Tx, k ibid.Digest, _ ibid.Claim) error {
			l.exec("DELETE FROM ibid_record WHERE key = ?", k[:])
			return nil
		}, ibid.ErrClaimLost, "", "the next caller runs the work"},
		{"a damaged record", "", func(l *ledger, _ *sql.Tx, k ibid.Digest, _ ibid.Claim) error {
			l.exec("UPDATE ibid_record SET record = x'00' WHERE key = ?", k[:])
			return nil
		}, ibid.ErrDamaged, "", "nobody knows whose claim it was"},
		{
			"a commit that promises less than the store", "?_pragma=synchronous(NORMAL)", nil,
			ibid.ErrInvalid, "synchronous", "an acknowledged result would not survive a power loss",
		},
		{"a transaction that read before another wrote", "", func(l *ledger, tx *sql.Tx, _ ibid.Digest, _ ibid.Claim) error {
			var n int
			err := tx.QueryRow("SELECT count(*) FROM charge").Scan(&n)
			l.exec("INSERT INTO charge VALUES ('2')")
			return err
		}, nil, "IMMEDIATE", "what it decided on is no longer so"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t, row.params)
			k, c := l.owned()
			tx, err := l.db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if row.before != nil {
				if err := row.before(l, tx, k, c); err != nil {
					t.Fatal(err)
				}
			}
			err = l.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: c.Token, Result: []byte("x"), Keep: ibid.Keep{Retain: long}})
			if err == nil || row.want != nil && !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want %v that says %q: %s", err, row.want, row.says, row.why)
			}
		})
	}
}
