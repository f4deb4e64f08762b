// Package mysql_test puts the MySQL store before a real MariaDB, or before the
// server that IBID_TEST_MYSQL names.
package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/internal/outside"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/storetest"
)

// shared is the server of the tests that break nothing; it starts on first use.
var shared struct {
	once   sync.Once
	server *servers.MariaDB
	dsn    string
	err    error
}

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(silent{}) // lost connections are what is tested
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	os.Exit(code)
}

type silent struct{}

func (silent) Print(...any) {}

func serverDSN(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.dsn = outside.Address("MYSQL"); shared.dsn != "" {
			return
		}
		if shared.server, shared.err = servers.StartMariaDB(); shared.err == nil {
			shared.dsn = shared.server.DSN
		}
	})
	servers.Need(t, shared.err)
	return shared.dsn
}

// private starts a server that the test may break.
func private(t testing.TB, settings ...string) *servers.MariaDB {
	t.Helper()
	m, err := servers.StartMariaDB(settings...)
	servers.Need(t, err)
	t.Cleanup(m.Stop)
	return m
}

func newDB(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

var tables atomic.Int64

// newTable returns the name of a table that no other test has, and drops it in
// the end.
func newTable(t testing.TB, db *sql.DB) string {
	name := fmt.Sprintf("t%d_%d", os.Getpid(), tables.Add(1))
	t.Cleanup(func() { _, _ = db.Exec(fmt.Sprintf("DROP TABLE IF EXISTS %[1]s, %[1]s_schema", name)) })
	return name
}

func open(t testing.TB, db *sql.DB, opts *sqlstore.MySQLOptions) *sqlstore.MySQL {
	t.Helper()
	s, err := sqlstore.OpenMySQL(t.Context(), db, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openNew(t testing.TB, db *sql.DB) (*sqlstore.MySQL, string) {
	t.Helper()
	table := newTable(t, db)
	return open(t, db, &sqlstore.MySQLOptions{Table: table}), table
}

func newKey() (k ibid.Digest) {
	a, b := ibid.NewToken(), ibid.NewToken()
	copy(k[:], a[:])
	copy(k[16:], b[:])
	return k
}

func newClaim() ibid.Claim {
	return ibid.Claim{
		Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint(newKey()), Scope: newKey(),
		Lease: time.Minute, Window: time.Hour, MaxTakeovers: -1,
	}
}

var keepHour = ibid.Keep{Retain: time.Hour}

func mustBegin(t *testing.T, s ibid.Store) (ibid.Digest, ibid.Claim) {
	t.Helper()
	k, c := newKey(), newClaim()
	if r, err := s.Begin(t.Context(), k, c); err != nil || !r.OwnedBy(c.Token) {
		t.Fatalf("Begin: %v, %v", r.State, err)
	}
	return k, c
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, target(t, newDB(t, serverDSN(t))))
}

// Settings of a connection that change what counts as a changed row, how text
// is written and what time it is: the store is the same.
func TestContractUnderOtherSettings(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN(serverDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ClientFoundRows, config.InterpolateParams, config.ParseTime = true, true, true
	config.Params = map[string]string{
		"sql_mode":  "'ANSI,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
		"time_zone": "'-11:00'",
	}
	if shared.server != nil { // MySQL has another name for it
		config.Params["tx_isolation"] = "'SERIALIZABLE'"
	}
	storetest.Run(t, target(t, newDB(t, config.FormatDSN())))
}

func target(t *testing.T, db *sql.DB) storetest.Target {
	var tablesOf sync.Map // store → table
	openIn := func(ctx context.Context, table string) (ibid.Store, func() error, error) {
		s, err := sqlstore.OpenMySQL(ctx, db, &sqlstore.MySQLOptions{Table: table})
		if err != nil {
			return nil, nil, err
		}
		tablesOf.Store(ibid.Store(s), table)
		return s, s.Close, nil
	}
	return storetest.Target{
		Open: func(ctx context.Context) (ibid.Store, func() error, error) { return openIn(ctx, newTable(t, db)) },
		Second: func(ctx context.Context, store ibid.Store) (ibid.Store, func() error, error) {
			table, _ := tablesOf.Load(store)
			return openIn(ctx, table.(string))
		},
		Corrupt: func(ctx context.Context, store ibid.Store, key ibid.Digest, change func([]byte) []byte) error {
			table, _ := tablesOf.Load(store)
			var raw []byte
			if err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT record FROM %s WHERE `key` = ?", table), key[:]).Scan(&raw); err != nil {
				return err
			}
			_, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET record = ? WHERE `key` = ?", table), change(raw), key[:])
			return err
		},
		Tick:     200 * time.Millisecond,
		Callers:  40,
		Parallel: true,
	}
}
