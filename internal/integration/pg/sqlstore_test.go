package pg_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/storetest"
)

// The PostgreSQL store of package sqlstore, through pgx's driver.

func newDB(t *testing.T, pool *pgxpool.Pool) *sql.DB {
	t.Helper()
	db := stdlib.OpenDB(*pool.Config().ConnConfig)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSQLContract(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	db := newDB(t, pool)
	var tablesOf sync.Map // store → table
	openIn := func(ctx context.Context, table string) (ibid.Store, func() error, error) {
		s, err := sqlstore.OpenPostgres(ctx, db, &sqlstore.PostgresOptions{Table: table})
		if err != nil {
			return nil, nil, err
		}
		tablesOf.Store(ibid.Store(s), table)
		return s, nil, nil
	}
	storetest.Run(t, storetest.Target{
		Open: func(ctx context.Context) (ibid.Store, func() error, error) { return openIn(ctx, newTable(t, pool)) },
		Second: func(ctx context.Context, store ibid.Store) (ibid.Store, func() error, error) {
			table, _ := tablesOf.Load(store)
			s, err := pgxstore.New(ctx, pool, &pgxstore.Options{Table: table.(string)}) // they share tables
			return s, nil, err
		},
		Corrupt: func(ctx context.Context, store ibid.Store, key ibid.Digest, change func([]byte) []byte) error {
			table, _ := tablesOf.Load(store)
			return corrupt(ctx, pool, table.(string), key, change)
		},
		Tick:     200 * time.Millisecond,
		Callers:  40,
		Parallel: true,
	})
}

func TestSQLCompleteTx(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	db := newDB(t, pool)
	table := newTable(t, pool)
	s, err := sqlstore.OpenPostgres(t.Context(), db, &sqlstore.PostgresOptions{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	complete := func(k ibid.Digest, c ibid.Claim, swallow, commit bool) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := s.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: c.Token, Result: []byte("receipt"), Keep: keepHour}); err != nil {
			return err
		}
		if swallow {
			_, _ = tx.ExecContext(t.Context(), "SELECT 1/0")
		}
		if !commit {
			return tx.Rollback()
		}
		return tx.Commit()
	}
	k, c := mustBegin(t, s)
	state := func() ibid.State {
		r, err := s.Look(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		return r.State
	}
	if err := complete(k, c, false, false); err != nil || state() != ibid.InProgress {
		t.Errorf("rolled back: %v, %v", err, state())
	}
	if err := complete(k, c, true, true); err == nil || state() != ibid.InProgress {
		t.Errorf("a commit that was a rollback: %v, %v", err, state())
	}
	if err := complete(k, c, false, true); err != nil || state() != ibid.Completed {
		t.Errorf("committed: %v, %v", err, state())
	}
	if err := complete(k, c, false, true); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("run again: %v, want ErrClaimLost", err)
	}
}

func TestSQLSchema(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	db := newDB(t, pool)
	table := newTable(t, pool)
	opts := &sqlstore.PostgresOptions{Table: table, NoMigrate: true}
	if _, err := sqlstore.OpenPostgres(t.Context(), db, opts); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("without a table: %v", err)
	}
	for range 2 {
		if err := sqlstore.MigratePostgres(t.Context(), db, table); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sqlstore.OpenPostgres(t.Context(), db, opts); err != nil {
		t.Error(err)
	}
	if _, err := sqlstore.OpenPostgres(t.Context(), nil, nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("no database: %v", err)
	}
	mine, err1 := pgxstore.Schema(table)
	same, err2 := sqlstore.PostgresSchema(table)
	if err1 != nil || err2 != nil || mine != same {
		t.Errorf("two schemas: %v, %v", err1, err2)
	}
}
