package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
	"github.com/ibid-go/ibid/pgxstore"
)

// What the server says of a Begin that claims nothing: no WAL, no transaction
// number, no row changed.
func TestReplayWritesNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	s, table := openNew(t, pool)
	queries, err := pgsql.NewQueries(table)
	if err != nil {
		t.Fatal(err)
	}
	completed, c := mustBegin(t, s)
	if err := s.Complete(t.Context(), completed, c.Token, make([]byte, 300), keepHour); err != nil {
		t.Fatal(err)
	}
	held, _ := mustBegin(t, s)
	explain := func(call *pgsql.Call) string {
		t.Helper()
		rows, err := pool.Query(t.Context(), "EXPLAIN (ANALYZE, WAL) "+call.SQL, append([]any{pgx.QueryExecModeExec}, call.Args...)...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	var answer ibid.Record
	for name, call := range map[string]*pgsql.Call{
		"replay":   queries.Begin(completed, newClaim(), &answer),
		"conflict": queries.Begin(held, newClaim(), &answer),
		"look":     queries.Look(completed, &answer),
	} {
		for range 10 { // the first may set hint bits, or prune the page
			explain(call)
		}
		if plan := explain(call); strings.Contains(plan, "WAL:") {
			t.Errorf("%s writes:\n%s", name, plan)
		}
		var assigned *string
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), call.SQL, call.Args...); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned()::text").Scan(&assigned); err != nil || assigned != nil {
			t.Errorf("%s took transaction number %v, %v", name, assigned, err)
		}
		_ = tx.Rollback(t.Context())
	}
	if plan := explain(queries.Begin(newKey(), newClaim(), &answer)); !strings.Contains(plan, "WAL:") {
		t.Errorf("a first run seems to write nothing either:\n%s", plan)
	}
}

// Completing touches no index: the row's new version stays on its page.
func TestCompleteTouchesNoIndex(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	s, table := openNew(t, pool)
	for range 50 {
		k, c := mustBegin(t, s)
		if err := s.Complete(t.Context(), k, c.Token, make([]byte, 300), keepHour); err != nil {
			t.Fatal(err)
		}
	}
	var updated, hot int
	for end := time.Now().Add(10 * time.Second); updated < 50 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := pool.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
		if err := pool.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1", table).Scan(&updated, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if updated < 50 || hot < updated*8/10 {
		t.Errorf("%d updates, %d of them without an index", updated, hot)
	}
}

// The planner uses the index even of a table that is empty, so that no
// connection keeps a plan that reads a table as a whole.
func TestSmallTableIsReadByIndex(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	_, table := openNew(t, pool)
	if _, err := pool.Exec(t.Context(), "VACUUM ANALYZE "+table); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), "EXPLAIN SELECT * FROM "+table+" WHERE key = '\\x00'")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "Index Scan") {
		t.Errorf("%v\n%s", err, strings.Join(plan, "\n"))
	}
}

func TestManyMakeOneTable(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t), func(c *pgxpool.Config) { c.MaxConns = 8 })
	table := newTable(t, pool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := pgxstore.New(t.Context(), pool, &pgxstore.Options{Table: table})
			if err != nil {
				t.Error(err)
				return
			}
			mustBegin(t, s)
		})
	}
	wg.Wait()
	if err := pgxstore.Migrate(t.Context(), pool, table); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestSchemaByHand(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	table := newTable(t, pool)
	opts := &pgxstore.Options{Table: table, NoMigrate: true}
	if _, err := pgxstore.New(t.Context(), pool, opts); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("without a table: %v", err)
	}
	schema, err := pgxstore.Schema(table)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := pool.Exec(t.Context(), schema); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, pool, opts)
	k, _ := mustBegin(t, s)
	if _, err := pool.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Look(t.Context(), k); err != nil || r.State != ibid.InProgress {
		t.Errorf("after the schema was run again: %v, %v", r.State, err)
	}
}

func TestUnknownSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	_, table := openNew(t, pool)
	if _, err := pool.Exec(t.Context(), "UPDATE "+table+"_schema SET version = 2"); err != nil {
		t.Fatal(err)
	}
	_, err := pgxstore.New(t.Context(), pool, &pgxstore.Options{Table: table})
	if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("%v", err)
	}
	if err := pgxstore.Migrate(t.Context(), pool, table); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("Migrate: %v", err)
	}
}

func TestTableNames(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	for _, name := range []string{"a b", "x; DROP TABLE payments", `x"`, "1st", "Upper", "schéma", "a.b.c", "a" + strings.Repeat("b", 48)} {
		if _, err := pgxstore.New(t.Context(), pool, &pgxstore.Options{Table: name}); !errors.Is(err, ibid.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	schema := newTable(t, pool)
	if _, err := pool.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE") })
	for _, name := range []string{schema + ".order", schema + "." + strings.Repeat("b", 48)} {
		s := open(t, pool, &pgxstore.Options{Table: name})
		k, c := mustBegin(t, s)
		changed, stop, err := s.Watch(t.Context(), k)
		if err != nil {
			t.Fatal(name, err)
		}
		defer stop()
		if err := s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour); err != nil {
			t.Error(name, err)
		}
		select {
		case <-changed:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: nobody was woken", name)
		}
	}
}

// What the settings promise, one by one.
func TestDescribe(t *testing.T) {
	t.Parallel()
	server := private(t)
	admin := newPool(t, server.URL)
	_, table := openNew(t, admin)
	const disk = ibid.ProcessKill | ibid.ServerKill | ibid.PowerLoss
	for _, row := range []struct {
		setting, value string
		survives       ibid.Survival
		advice         string // mentioned in what is not survived
	}{
		{"", "", disk, "synchronous_standby_names"},
		{"synchronous_commit", "off", ibid.ProcessKill, "synchronous_commit"},
		{"synchronous_commit", "local", disk, "synchronous_standby_names"},
		{"fsync", "off", ibid.ProcessKill | ibid.ServerKill, "fsync"},
		{"full_page_writes", "off", ibid.ProcessKill | ibid.ServerKill, "full_page_writes"},
		{"synchronous_standby_names", "one", disk | ibid.Failover, ""},
	} {
		t.Run(row.setting+" "+row.value, func(t *testing.T) {
			set := func(query string) {
				// A commit would wait for the standby.
				for _, q := range []string{"SET synchronous_commit = local", query, "SELECT pg_reload_conf()"} {
					conn := connect(t, server.URL)
					if _, err := conn.Exec(context.Background(), q); err != nil {
						t.Fatal(err)
					}
				}
			}
			if row.setting != "" {
				set(fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", row.setting, row.value))
				defer set("ALTER SYSTEM RESET " + row.setting)
			}
			var d ibid.Description
			for end := time.Now().Add(5 * time.Second); d.Survives != row.survives && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				pool := newPool(t, server.URL)
				s := open(t, pool, &pgxstore.Options{Table: table})
				var err error
				if d, err = s.Describe(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if d.Survives != row.survives || !strings.HasPrefix(d.Store, "PostgreSQL 1") {
				t.Errorf("%s survives %v, want %v", d.Store, d.Survives, row.survives)
			}
			var all strings.Builder
			for bit := ibid.ProcessKill; bit <= ibid.Failover; bit <<= 1 {
				if (d.Survives&bit == 0) != (d.Advice[bit] != "") {
					t.Errorf("%v: advice %q", bit, d.Advice[bit])
				}
				all.WriteString(d.Advice[bit])
			}
			if !strings.Contains(all.String(), row.advice) {
				t.Errorf("%v does not mention %s", d.Advice, row.advice)
			}
		})
	}
	if _, err := admin.Exec(t.Context(), "ALTER TABLE "+table+" SET UNLOGGED"); err != nil {
		t.Fatal(err)
	}
	s := open(t, admin, &pgxstore.Options{Table: table})
	if d, err := s.Describe(t.Context()); err != nil || d.Survives != ibid.ProcessKill || !strings.Contains(d.Advice[ibid.ServerKill], "UNLOGGED") {
		t.Errorf("unlogged: %+v, %v", d, err)
	}
}

// Waiters of another process are woken; who ends a claim that nobody watches
// announces nothing.
func TestOnlyWatchedClaimsAreAnnounced(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	here, table := openNew(t, pool)
	there := open(t, newPool(t, serverURL(t)), &pgxstore.Options{Table: table})
	listener := connect(t, serverURL(t))
	if _, err := listener.Exec(t.Context(), "LISTEN "+table); err != nil {
		t.Fatal(err)
	}
	quiet, q := mustBegin(t, here)
	if err := here.Complete(t.Context(), quiet, q.Token, nil, keepHour); err != nil {
		t.Fatal(err)
	}
	k, c := mustBegin(t, here)
	changed, stop, err := there.Watch(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := here.Complete(t.Context(), k, c.Token, nil, keepHour); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Error("nobody was woken")
	}
	note, err := listener.WaitForNotification(t.Context())
	if err != nil || note.Payload != k.String() && !strings.EqualFold(note.Payload, fmt.Sprintf("%x", k[:])) {
		t.Errorf("the first announcement is %+v, %v, want that of the watched key", note, err)
	}
}

// A lost connection wakes those who wait, and the next one to wait makes another.
func TestListenerSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	_, proxied := behind(t, serverURL(t))
	pool := newPool(t, serverURL(t))
	table := newTable(t, pool)
	name := "application_name"
	proxied.Close()
	config := pool.Config()
	config.ConnConfig.RuntimeParams[name] = table
	named, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(named.Close)
	s := open(t, named, &pgxstore.Options{Table: table})
	k, c := mustBegin(t, s)
	changed, stop, err := s.Watch(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN%'", table); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("the connection is lost, and nobody was told to look")
	}
	changed, stop, err = s.Watch(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := s.Complete(t.Context(), k, c.Token, nil, keepHour); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Error("nobody was woken over the new connection")
	}
}
