package tx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/internal/outside"
	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/steps"
)

// shared is the server of the tests that break nothing of it; it starts on first use.
var shared struct {
	once   sync.Once
	server *servers.Postgres
	url    string
	err    error
}

var schemas atomic.Int64

// freshPostgres makes a schema of its own, which is as good as a database.
func freshPostgres(t testing.TB) string {
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
	return newSchema(t, shared.url)
}

func newSchema(t testing.TB, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	name := fmt.Sprintf("s%d_%d", os.Getpid(), schemas.Add(1))
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return url + "&search_path=" + name
}

func openPgx(ctx context.Context, where string, conns int) (*opened, error) {
	config, err := pgxpool.ParseConfig(where)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 10
	if conns > 0 {
		config.MaxConns = int32(conns)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	store, err := pgxstore.New(ctx, pool, nil)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &opened{
		store: store,
		exec: func(ctx context.Context, query string) error {
			tx, ok := pgxstore.Tx(ctx)
			if !ok {
				return errors.New("no transaction in the context")
			}
			_, err := tx.Exec(ctx, query)
			return err
		},
		auto: func(ctx context.Context, query string) error { _, err := pool.Exec(ctx, query); return err },
		count: func(ctx context.Context, query string) (n int, err error) {
			err = pool.QueryRow(ctx, query).Scan(&n)
			return n, err
		},
		stepTx: func(ctx context.Context, op *steps.Op, name string, fn func(context.Context) (string, error)) (string, error) {
			return steps.StepTx(ctx, op, store, name, func(ctx context.Context, _ pgx.Tx) (string, error) { return fn(ctx) })
		},
		inUse: func() int { return int(pool.Stat().AcquiredConns()) },
		close: func() { _ = store.Close(); pool.Close() },
	}, nil
}
