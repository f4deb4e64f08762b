package messages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/internal/outside"
	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/sqlstore"
)

// database is a store with a ledger beside it: a table without a unique
// constraint, in which a duplicate shows.
type database[TX any] struct {
	store interface {
		ibid.Store
		ibid.Marker[TX]
	}
	begin    func(context.Context) (TX, error)
	effect   func(context.Context, TX, string) error
	commit   func(context.Context, TX) error
	rollback func(context.Context, TX)
	effects  func(id string) int
}

func openSQLite(t testing.TB) *database[*sql.Tx] {
	t.Helper()
	dir, err := os.MkdirTemp("", "ibid-mark-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	db, err := sql.Open("sqlite", filepath.Join(dir, "f.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.OpenSQLite(t.Context(), db, nil)
	if err == nil {
		_, err = db.Exec("CREATE TABLE ledger (id TEXT)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(); db.Close() })
	return &database[*sql.Tx]{
		store: store,
		begin: func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) },
		effect: func(ctx context.Context, tx *sql.Tx, id string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?)", id)
			return err
		},
		commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		rollback: func(_ context.Context, tx *sql.Tx) { tx.Rollback() },
		effects: func(id string) (n int) {
			if err := db.QueryRow("SELECT count(*) FROM ledger WHERE id = ?", id).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		},
	}
}

var postgres struct {
	once   sync.Once
	server *servers.Postgres
	url    string
	err    error
}

func TestMain(m *testing.M) {
	if crashed() {
		return
	}
	code := m.Run()
	if postgres.server != nil {
		postgres.server.Stop()
	}
	os.Exit(code)
}

func postgresURL(t testing.TB) string {
	t.Helper()
	postgres.once.Do(func() {
		if postgres.url = outside.Address("POSTGRES"); postgres.url != "" {
			return
		}
		if postgres.server, postgres.err = servers.StartPostgres(); postgres.err == nil {
			postgres.url = postgres.server.URL
		}
	})
	servers.Need(t, postgres.err)
	return postgres.url
}

func openPostgres(t testing.TB) *database[pgx.Tx] {
	t.Helper()
	return openPostgresAt(t, postgresURL(t))
}

func openPostgresAt(t testing.TB, url string) *database[pgx.Tx] {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	table := fmt.Sprintf("inbox_%d", time.Now().UnixNano())
	store, err := pgxstore.New(t.Context(), pool, &pgxstore.Options{Table: table})
	if err == nil {
		_, err = pool.Exec(t.Context(), "CREATE TABLE "+table+"_ledger (id text)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &database[pgx.Tx]{
		store: store,
		begin: func(ctx context.Context) (pgx.Tx, error) { return pool.Begin(ctx) },
		effect: func(ctx context.Context, tx pgx.Tx, id string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+table+"_ledger VALUES ($1)", id)
			return err
		},
		commit:   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		rollback: func(ctx context.Context, tx pgx.Tx) { tx.Rollback(ctx) },
		effects: func(id string) (n int) {
			if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM "+table+"_ledger WHERE id = $1", id).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		},
	}
}

func TestMarkSQLite(t *testing.T) {
	t.Parallel()
	testMark(t, openSQLite)
}

func TestMarkPostgres(t *testing.T) {
	t.Parallel()
	testMark(t, openPostgres)
}

type marking[TX any] struct {
	*database[TX]
	t        *testing.T
	consumer *inbox.Consumer
	box      *inbox.Inbox[TX]
}

func (m *marking[TX]) message(id string) inbox.Message {
	return inbox.Message{Source: "q", ID: id, Body: []byte(id)}
}

// process marks id, has its effect where it is first, and ends the transaction.
func (m *marking[TX]) process(id string, commit bool) (inbox.MarkStatus, error) {
	ctx := m.t.Context()
	tx, err := m.begin(ctx)
	if err != nil {
		return inbox.Busy, err
	}
	defer m.rollback(ctx, tx)
	status, err := m.box.Mark(ctx, tx, m.message(id))
	if err != nil || status != inbox.First {
		return status, err
	}
	if err := m.effect(ctx, tx, id); err != nil || !commit {
		return status, err
	}
	return status, m.commit(ctx, tx)
}

func (m *marking[TX]) want(id string, commit bool, want inbox.MarkStatus, effects int) {
	m.t.Helper()
	got, err := m.process(id, commit)
	if n := m.effects(id); got != want || n != effects {
		m.t.Fatalf("%s: %v (%v), %d effects, want %v, %d", id, got, err, n, want, effects)
	}
}

func testMark[TX any](t *testing.T, open func(testing.TB) *database[TX]) {
	db := open(t)
	engine, err := ibid.New(t.Context(), db.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := inbox.New(engine, "c", ibid.Refuse, &inbox.Options{Policy: ibid.Policy{Wait: -1}})
	if err != nil {
		t.Fatal(err)
	}
	with := func(t *testing.T) *marking[TX] {
		return &marking[TX]{database: db, t: t, consumer: consumer, box: inbox.Of(consumer, db.store)}
	}

	t.Run("mark and effect are committed together", func(t *testing.T) {
		m := with(t)
		m.want("a", false, inbox.First, 0) // rolled back: lost with its effect
		m.want("a", true, inbox.First, 1)
		m.want("a", true, inbox.Duplicate, 1)
	})

	t.Run("another body is a conflict", func(t *testing.T) {
		m := with(t)
		m.want("b", true, inbox.First, 1)
		tx, err := m.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer m.rollback(t.Context(), tx)
		other := m.message("b")
		other.Body = []byte("other")
		if status, err := m.box.Mark(t.Context(), tx, other); status != inbox.Conflict || !errors.Is(err, ibid.ErrMismatch) {
			t.Errorf("%v, %v", status, err)
		}
	})

	t.Run("one key space with lease mode", func(t *testing.T) {
		m := with(t)
		m.want("c", true, inbox.First, 1)
		if d := consumer.Process(t.Context(), m.message("c"), nil, func(context.Context) error { t.Error("ran"); return nil }); d.Verdict != inbox.Ack || !d.Replayed {
			t.Errorf("%v, %v", d.Verdict, d.Err)
		}
		consumer.Process(t.Context(), m.message("d"), nil, func(context.Context) error {
			m.want("d", true, inbox.Busy, 0)
			return nil
		})
		m.want("d", true, inbox.Duplicate, 0)
		consumer.Process(t.Context(), m.message("e"), nil, func(ctx context.Context) error { ibid.EffectStarted(ctx); return errors.New("cut") })
		m.want("e", true, inbox.Unknown, 0)
	})

	t.Run("a hundred deliveries at once", func(t *testing.T) {
		m := with(t)
		var all sync.WaitGroup
		var mu sync.Mutex
		first := 0
		for i := range 100 {
			all.Go(func() {
				for {
					status, err := m.process(fmt.Sprint("storm", i%5), true)
					if status == inbox.Busy || err != nil {
						continue
					}
					mu.Lock()
					defer mu.Unlock()
					if status == inbox.First {
						first++
					}
					return
				}
			})
		}
		all.Wait()
		for i := range 5 {
			m.want(fmt.Sprint("storm", i), true, inbox.Duplicate, 1)
		}
		if first != 5 {
			t.Errorf("%d were first", first)
		}
	})

	t.Run("a batch", func(t *testing.T) {
		m := with(t)
		m.want("f1", true, inbox.First, 1)
		tx, err := m.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer m.rollback(t.Context(), tx)
		ids := []string{"f0", "f1", "f2", "f2", ""}
		want := []inbox.MarkStatus{inbox.First, inbox.Duplicate, inbox.First, inbox.Duplicate, inbox.Conflict}
		var batch []inbox.Message
		for _, id := range ids {
			batch = append(batch, m.message(id))
		}
		marked, err := m.box.MarkBatch(t.Context(), tx, batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range marked {
			if got.Status != want[i] {
				t.Errorf("%d: %v (%v), want %v", i, got.Status, got.Err, want[i])
			}
		}
		if done, err := m.box.Committed(t.Context(), marked[0]); done || err != nil {
			t.Errorf("before the commit: %v, %v", done, err)
		}
		if err := m.commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false, true, false} {
			if done, err := m.box.Committed(t.Context(), marked[i]); done != want || err != nil {
				t.Errorf("%d after the commit: %v, %v", i, done, err)
			}
		}
	})
}

// A lock that is waited for too long is no duplicate and no failure of the
// message.
func TestMarkPostgresBusy(t *testing.T) {
	t.Parallel()
	db := openPostgres(t)
	engine, err := ibid.New(t.Context(), db.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := inbox.New(engine, "c", ibid.Refuse, nil)
	if err != nil {
		t.Fatal(err)
	}
	box := inbox.Of(consumer, db.store)
	m := inbox.Message{Source: "q", ID: "a", Body: []byte("a")}
	first, err := db.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status, err := box.Mark(t.Context(), first, m); status != inbox.First || err != nil {
		t.Fatal(status, err)
	}
	second, err := db.begin(t.Context())
	if err == nil {
		_, err = second.Exec(t.Context(), "SET LOCAL lock_timeout = '50ms'")
	}
	if err != nil {
		t.Fatal(err)
	}
	status, err := box.Mark(t.Context(), second, m)
	if status != inbox.Busy || !errors.Is(err, ibid.ErrTxAgain) {
		t.Errorf("%v, %v", status, err)
	}
	db.rollback(t.Context(), second)
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
