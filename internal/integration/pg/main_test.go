// Package pg_test puts the PostgreSQL stores before a real server.
package pg_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/internal/outside"
	"github.com/ibid-go/ibid/pgxstore"
)

// shared is the server of the tests that break nothing; it starts on first use.
var shared struct {
	once   sync.Once
	server *servers.Postgres
	url    string
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	os.Exit(code)
}

func serverURL(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.url = outside.Address("POSTGRES"); shared.url != "" {
			return
		}
		if shared.server, shared.err = servers.StartPostgres(); shared.err == nil {
			shared.url = shared.server.URL
		}
	})
	servers.Need(t, shared.err)
	return shared.url
}

// private starts a server that the test may break.
func private(t testing.TB, settings ...string) *servers.Postgres {
	t.Helper()
	p, err := servers.StartPostgres(settings...)
	servers.Need(t, err)
	t.Cleanup(p.Stop)
	return p
}

func newPool(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

var tables atomic.Int64

// newTable returns the name of a table that no other test has, and drops it in
// the end.
func newTable(t testing.TB, pool *pgxpool.Pool) string {
	name := fmt.Sprintf("t%d_%d", os.Getpid(), tables.Add(1))
	t.Cleanup(func() { dropTable(pool, name) })
	return name
}

func dropTable(pool *pgxpool.Pool, name string) {
	_, _ = pool.Exec(context.Background(), fmt.Sprintf("DROP TABLE IF EXISTS %[1]s, %[1]s_schema CASCADE; DROP FUNCTION IF EXISTS %[1]s_write", name))
}

func open(t testing.TB, pool *pgxpool.Pool, opts *pgxstore.Options) *pgxstore.Store {
	t.Helper()
	s, err := pgxstore.New(t.Context(), pool, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openNew opens a store in a table of its own.
func openNew(t testing.TB, pool *pgxpool.Pool) (*pgxstore.Store, string) {
	t.Helper()
	table := newTable(t, pool)
	return open(t, pool, &pgxstore.Options{Table: table}), table
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

var keys atomic.Uint64

func newKey() (k ibid.Digest) {
	t := ibid.NewToken()
	copy(k[:], t[:])
	n := keys.Add(1)
	for i := range 8 {
		k[24+i] = byte(n >> (8 * i))
	}
	return k
}
