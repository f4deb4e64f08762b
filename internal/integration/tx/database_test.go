// Package tx_test puts transactional mode before real databases, and kills the
// processes that use them.
package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/steps"
)

// database is one kind of database, as these tests use it.
type database struct {
	name string
	// fresh makes an empty database, and returns where it is.
	fresh func(testing.TB) string
	// open opens it, with at most conns connections where the kind can say so.
	open func(ctx context.Context, where string, conns int) (*opened, error)
	// poison is a statement that fails, and ends or spoils the transaction.
	poison string
	// oneWriter is true when a transaction holds up all others.
	oneWriter bool
	// busy is how many connections a store holds while one transaction runs and
	// any number of duplicates wait.
	busy int
}

// opened is a database that a process has opened.
type opened struct {
	store txStore
	// exec runs a statement in the transaction of the work.
	exec func(ctx context.Context, query string) error
	// auto runs a statement outside of any.
	auto func(ctx context.Context, query string) error
	// count returns the one number that a query yields.
	count func(ctx context.Context, query string) (int, error)
	// stepTx is steps.StepTx of this database, whose exec goes on in the step's
	// transaction.
	stepTx func(ctx context.Context, op *steps.Op, name string, fn func(context.Context) (string, error)) (string, error)
	// inUse is how many of the pool's connections are held at the moment.
	inUse func() int
	close func()
}

type txStore interface {
	ibid.Store
	ibid.TxStore
}

var databases = []database{{
	name: "SQLite", oneWriter: true, busy: 5, // four readers, and the one that writes
	fresh:  func(t testing.TB) string { return filepath.Join(tempDir(t), "ibid.db") },
	open:   openSQLite,
	poison: "INSERT OR ROLLBACK INTO single VALUES (1)",
}, {
	name: "PostgreSQL", busy: 1,
	fresh: freshPostgres, open: openPgx,
	poison: "INSERT INTO single VALUES (1)",
}, {
	name: "PostgreSQL through database/sql", busy: 1,
	fresh: freshPostgres, open: openPostgres,
	poison: "INSERT INTO single VALUES (1)",
}, {
	name: "MariaDB", busy: 1,
	fresh: freshMySQL, open: openMySQL,
	poison: "INSERT INTO single VALUES (1)",
}}

func openSQLite(ctx context.Context, where string, _ int) (*opened, error) {
	db, err := sql.Open("sqlite", where+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	store, err := sqlstore.OpenSQLite(ctx, db, &sqlstore.SQLiteOptions{BusyTimeout: 20 * time.Second})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &opened{
		store: store,
		exec: func(ctx context.Context, query string) error {
			tx, ok := sqlstore.Tx(ctx)
			if !ok {
				return errors.New("no transaction in the context")
			}
			_, err := tx.ExecContext(ctx, query)
			return err
		},
		auto: func(ctx context.Context, query string) error { _, err := db.ExecContext(ctx, query); return err },
		count: func(ctx context.Context, query string) (n int, err error) {
			err = db.QueryRowContext(ctx, query).Scan(&n)
			return n, err
		},
		stepTx: func(ctx context.Context, op *steps.Op, name string, fn func(context.Context) (string, error)) (string, error) {
			return steps.StepTx(ctx, op, store, name, func(ctx context.Context, _ *sql.Tx) (string, error) { return fn(ctx) })
		},
		inUse: func() int { return db.Stats().InUse },
		close: func() { _ = store.Close(); _ = db.Close() },
	}, nil
}

// tables are the application's own. The ledger has no unique constraint, so
// that an effect that happened twice shows.
const tables = `CREATE TABLE IF NOT EXISTS ledger (id VARCHAR(64), part VARCHAR(16));
CREATE TABLE IF NOT EXISTS naive (id VARCHAR(64));
CREATE TABLE IF NOT EXISTS single (id INTEGER PRIMARY KEY)`

func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ibid-tx-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// bench is a database under test, with an engine.
type bench struct {
	*opened
	t      testing.TB
	kind   database
	where  string
	engine *ibid.Engine
}

// each runs test on every kind of database.
func each(t *testing.T, test func(*testing.T, *bench)) {
	t.Helper()
	for _, kind := range databases {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			where := kind.fresh(t)
			b := join(t, kind, where, 0)
			if err := b.auto(t.Context(), tables); err != nil {
				t.Fatal(err)
			}
			test(t, b)
		})
	}
}

// join opens a database as another process would.
func join(t testing.TB, kind database, where string, conns int) *bench {
	t.Helper()
	o, err := kind.open(t.Context(), where, conns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	e, err := newEngine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{opened: o, t: t, kind: kind, where: where, engine: e}
}

func newEngine(ctx context.Context, o *opened) (*ibid.Engine, error) {
	return ibid.New(ctx, o.store, &ibid.Options{Policy: ibid.Policy{Wait: 30 * time.Second}})
}

var calls atomic.Int64

// newCall returns a call of a key that no other test has, and its ID.
func (b *bench) newCall() (ibid.Call, string) {
	id := fmt.Sprintf("%d-%d", os.Getpid(), calls.Add(1))
	return ibid.Call{Key: ibid.Key{Scope: "orders", ID: id}, Fingerprint: ibid.Fingerprint{1}, Tx: b.store}, id
}

// charge writes a row of the ledger, in the work's transaction.
func (o *opened) charge(ctx context.Context, id, part string) error {
	return o.exec(ctx, fmt.Sprintf("INSERT INTO ledger VALUES ('%s', '%s')", id, part))
}

// effects returns how many rows the ledger has of id.
func (b *bench) effects(id string) int {
	b.t.Helper()
	n, err := b.count(context.Background(), fmt.Sprintf("SELECT count(*) FROM ledger WHERE id = '%s'", id))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// work writes one charge and returns what after says.
func (b *bench) work(id string, runs *atomic.Int64, after func(context.Context) error) ibid.Work {
	return func(ctx context.Context) ([]byte, error) {
		if runs != nil {
			runs.Add(1)
		}
		if err := b.charge(ctx, id, "charge"); err != nil {
			return nil, err
		}
		if after != nil {
			if err := after(ctx); err != nil {
				return nil, err
			}
		}
		return []byte("receipt " + id), nil
	}
}
