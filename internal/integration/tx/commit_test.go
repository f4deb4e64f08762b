package tx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// The reply to COMMIT is lost, once applied and once not: the record says which,
// and the work does not run again for it.
func TestSQLiteCommitOutcomeIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		applied bool
		want    error
		effects int
	}{{"applied", true, nil, 1}, {"not applied", false, ibid.ErrUnavailable, 0}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			cut := &cutter{path: filepath.Join(tempDir(t), "ibid.db")}
			db := sql.OpenDB(cut)
			defer db.Close()
			store, err := sqlstore.OpenSQLite(t.Context(), db, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if _, err := db.ExecContext(t.Context(), tables); err != nil {
				t.Fatal(err)
			}
			engine, err := ibid.New(t.Context(), store, nil)
			if err != nil {
				t.Fatal(err)
			}
			call := ibid.Call{Key: ibid.Key{Scope: "s", ID: "1"}}
			var runs atomic.Int64
			work := func(ctx context.Context, tx *sql.Tx) (string, error) {
				runs.Add(1)
				_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES ('1', 'charge')")
				return "receipt", err
			}
			cut.commits.Store(map[bool]int32{true: cutAfter, false: cutBefore}[row.applied])
			got, _, err := sqlstore.Do(t.Context(), engine, call, work)
			if !errors.Is(err, row.want) || err == nil && got != "receipt" || runs.Load() != 1 {
				t.Fatalf("%q, %v after %d runs, want %v", got, err, runs.Load(), row.want)
			}
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM ledger").Scan(&n); err != nil || n != row.effects {
				t.Fatalf("%d effects, %v, want %d", n, err, row.effects)
			}
			got, _, err = sqlstore.Do(t.Context(), engine, call, work)
			if err != nil || got != "receipt" {
				t.Fatalf("the next call: %q, %v", got, err)
			}
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM ledger").Scan(&n); err != nil || n != 1 {
				t.Fatalf("%d effects in the end, %v", n, err)
			}
		})
	}
}

// cutter opens connections to SQLite, of which the next COMMIT of database/sql
// can be cut off.
type cutter struct {
	path    string
	commits atomic.Int32
}

const (
	cutBefore = 1 // COMMIT never arrives
	cutAfter  = 2 // its reply is lost
)

func (c *cutter) Driver() driver.Driver { return &sqlite.Driver{} }

func (c *cutter) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.Driver().Open(c.path)
	if err != nil {
		return nil, err
	}
	return cutConn{inner.(innerConn), c}, nil
}

type innerConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type cutConn struct {
	innerConn
	cutter *cutter
}

type cutTx struct {
	driver.Tx
	cutter *cutter
}

func (c cutConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.innerConn.BeginTx(ctx, opts)
	return cutTx{tx, c.cutter}, err
}

func (t cutTx) Commit() error {
	how := t.cutter.commits.Swap(0)
	if how == cutBefore {
		return errors.New("disk I/O error")
	}
	err := t.Tx.Commit()
	if how == cutAfter {
		err = errors.New("disk I/O error")
	}
	return err
}
