package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// long is a lease or window that no test sees the end of.
const long = time.Hour

// A fixture is a store on a file of its own, with a hook between it and SQLite.
type fixture struct {
	*sqlstore.SQLite
	t    testing.TB
	db   *sql.DB // what the store uses
	raw  *sql.DB // the same file, past the hook
	path string
	hook *hook
}

func open(t testing.TB, opts *sqlstore.SQLiteOptions) *fixture {
	t.Helper()
	return openWith(t, "", opts)
}

// openWith is open with parameters of the driver for the store's connections.
func openWith(t testing.TB, params string, opts *sqlstore.SQLiteOptions) *fixture {
	t.Helper()
	f := &fixture{t: t, path: filepath.Join(tempDir(t), "ibid.db"), hook: &hook{}}
	f.db = sql.OpenDB(connector{f.path + params, f.hook})
	f.raw = sql.OpenDB(connector{f.path, &hook{}})
	s, err := sqlstore.OpenSQLite(t.Context(), f.db, opts)
	if err != nil {
		t.Fatal(err)
	}
	f.SQLite = s
	t.Cleanup(func() {
		f.hook.set(nil, nil)
		for _, close := range []func() error{s.Close, f.db.Close, f.raw.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

// tempDir is TempDir without its retries, which sleep, for use in a bubble too.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ibid-sqlite-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newKey() (k ibid.Digest) {
	rand.Read(k[:])
	return k
}

func newClaim() ibid.Claim {
	return ibid.Claim{Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint{1}, Scope: ibid.Digest{2}, Lease: long, Window: long}
}

// owned claims a new key.
func (f *fixture) owned() (ibid.Digest, ibid.Claim) {
	f.t.Helper()
	k, c := newKey(), newClaim()
	f.begin(k, c)
	return k, c
}

// begin claims k, and fails the test unless the claim is granted.
func (f *fixture) begin(k ibid.Digest, c ibid.Claim) {
	f.t.Helper()
	if r, err := f.Begin(context.Background(), k, c); err != nil || !r.OwnedBy(c.Token) {
		f.t.Fatalf("Begin: %v, %v, want the claim", r.State, err)
	}
}

func (f *fixture) complete(k ibid.Digest, c ibid.Claim, result string) error {
	return f.Complete(context.Background(), k, c.Token, []byte(result), ibid.Keep{Retain: long})
}

// completed claims and completes a new key.
func (f *fixture) completed(result string) (ibid.Digest, ibid.Claim) {
	f.t.Helper()
	k, c := f.owned()
	if err := f.complete(k, c, result); err != nil {
		f.t.Fatal(err)
	}
	return k, c
}

// state fails the test unless k is in state.
func (f *fixture) state(k ibid.Digest, state ibid.State) ibid.Record {
	f.t.Helper()
	r, err := f.Look(context.Background(), k)
	if err != nil || r.State != state {
		f.t.Errorf("Look: %v, %v, want %v", r.State, err, state)
	}
	return r
}

// lock takes the write lock as another process would.
func (f *fixture) lock() (unlock func()) {
	f.t.Helper()
	c, err := f.raw.Conn(context.Background())
	if err == nil {
		_, err = c.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return func() {
		if _, err := c.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			f.t.Error(err)
		}
		c.Close()
	}
}

// exec runs a statement past the store.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.raw.Exec(query, args...); err != nil {
		f.t.Fatalf("%s: %v", query, err)
	}
}

// hook is asked before and after every statement, with its text and arguments. An error
// takes the place of SQLite's answer.
type hook struct {
	mu            sync.Mutex
	before, after func(query string, args []driver.NamedValue) error
}

func (h *hook) set(before, after func(string, []driver.NamedValue) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.after = before, after
}

func (h *hook) run(query string, args []driver.NamedValue, f func() error) error {
	h.mu.Lock()
	before, after := h.before, h.after
	h.mu.Unlock()
	if before != nil {
		if err := before(query, args); err != nil {
			return err
		}
	}
	err := f()
	if err == nil && after != nil {
		err = after(query, args)
	}
	return err
}

// connector opens connections that ask a hook.
type connector struct {
	path string
	hook *hook
}

func (c connector) Driver() driver.Driver { return &sqlite.Driver{} }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.Driver().Open(c.path)
	if err != nil {
		return nil, err
	}
	return conn{inner.(innerConn), c.hook}, nil
}

type innerConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type conn struct {
	innerConn
	hook *hook
}

func (c conn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (r driver.Result, err error) {
	err = c.hook.run(q, args, func() error { r, err = c.innerConn.ExecContext(ctx, q, args); return err })
	return r, err
}

func (c conn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (r driver.Rows, err error) {
	err = c.hook.run(q, args, func() error { r, err = c.innerConn.QueryContext(ctx, q, args); return err })
	return r, err
}

func (c conn) PrepareContext(ctx context.Context, q string) (driver.Stmt, error) {
	s, err := c.innerConn.PrepareContext(ctx, q)
	if err != nil {
		return nil, err
	}
	return stmt{s.(innerStmt), q, c.hook}, nil
}

type innerStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// driverValue is an argument of a statement.
type driverValue = driver.NamedValue

type stmt struct {
	innerStmt
	query string
	hook  *hook
}

func (s stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	err = s.hook.run(s.query, args, func() error { r, err = s.innerStmt.ExecContext(ctx, args); return err })
	return r, err
}

func (s stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (r driver.Rows, err error) {
	err = s.hook.run(s.query, args, func() error { r, err = s.innerStmt.QueryContext(ctx, args); return err })
	return r, err
}
