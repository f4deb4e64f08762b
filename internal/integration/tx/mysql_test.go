package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/steps"
)

// maria is the server of the tests that break nothing of it; it starts on first use.
var maria struct {
	once   sync.Once
	server *servers.MariaDB
	dsn    string
	err    error
}

type silent struct{}

func (silent) Print(...any) {}

// freshMySQL makes a database of its own.
func freshMySQL(t testing.TB) string {
	t.Helper()
	maria.once.Do(func() {
		_ = mysql.SetLogger(silent{}) // lost connections are what is tested
		if maria.dsn = os.Getenv("IBID_TEST_MYSQL"); maria.dsn != "" {
			return
		}
		if maria.server, maria.err = servers.StartMariaDB(); maria.err == nil {
			maria.dsn = maria.server.DSN
		}
	})
	servers.Need(t, maria.err)
	return newDatabase(t, maria.dsn)
}

func newDatabase(t testing.TB, dsn string) string {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	config.DBName = fmt.Sprintf("d%d_%d", os.Getpid(), schemas.Add(1))
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+config.DBName); err != nil {
		t.Fatal(err)
	}
	return config.FormatDSN()
}

func openMySQL(ctx context.Context, where string, conns int) (*opened, error) {
	db, err := sql.Open("mysql", where)
	if err != nil {
		return nil, err
	}
	if conns == 0 {
		conns = 10
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	store, err := sqlstore.OpenMySQL(ctx, db, nil)
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
		auto: func(ctx context.Context, queries string) error {
			for query := range strings.SplitSeq(queries, ";") {
				if _, err := db.ExecContext(ctx, query); err != nil {
					return err
				}
			}
			return nil
		},
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
