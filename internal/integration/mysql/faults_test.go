package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/sqlstore"
)

// behind returns a database whose connections pass through a proxy.
func behind(t *testing.T, dsn string) (*servers.Proxy, *sql.DB) {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := servers.NewProxy(t, config.Addr)
	config.Addr = proxy.Addr
	db := newDB(t, config.FormatDSN())
	db.SetMaxOpenConns(2)
	return proxy, db
}

// commandExecute is the first byte of a prepared statement's execution, after
// the four of the packet's header.
const commandExecute = 0x17

// writes reports whether a request is the statement that writes key: it carries
// more than the one that reads.
func writes(key ibid.Digest) func([]byte) bool {
	return func(sent []byte) bool {
		return len(sent) > 150 && sent[4] == commandExecute && bytes.Contains(sent, key[:])
	}
}

func TestReplyOfBeginLost(t *testing.T) {
	t.Parallel()
	proxy, db := behind(t, serverDSN(t))
	s, _ := openNew(t, db)
	mustBegin(t, s)
	k, c := newKey(), newClaim()
	proxy.SwallowReply(writes(k))
	_, err := s.Begin(t.Context(), k, c)
	if proxy.Fired() != 1 {
		t.Fatalf("%d replies lost, %v", proxy.Fired(), err)
	}
	// database/sql may have asked again by itself.
	r, err := s.Begin(t.Context(), k, c)
	if err != nil || !r.OwnedBy(c.Token) || r.Attempt != 1 || r.Vanished != 0 {
		t.Errorf("repeated: %+v, %v, want the first attempt, its own", r, err)
	}
}

func TestReplyOfCompleteLost(t *testing.T) {
	t.Parallel()
	proxy, db := behind(t, serverDSN(t))
	s, _ := openNew(t, db)
	k, c := mustBegin(t, s)
	proxy.SwallowReply(writes(k))
	err := s.Complete(t.Context(), k, c.Token, []byte("receipt"), keepHour)
	if errors.Is(err, ibid.ErrClaimLost) || proxy.Fired() != 1 {
		t.Fatalf("%v, %d replies lost", err, proxy.Fired())
	}
	if err := s.Complete(t.Context(), k, c.Token, []byte("receipt"), keepHour); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if err := s.Complete(t.Context(), k, c.Token, []byte("another"), keepHour); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("with another result: %v", err)
	}
}

func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := private(t)
	db := newDB(t, server.DSN)
	s, _ := openNew(t, db)
	var runs atomic.Int64
	work := func(context.Context) ([]byte, error) { runs.Add(1); return []byte("receipt"), nil }
	e, err := ibid.New(t.Context(), s, &ibid.Options{StoreTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	key := func(id string) ibid.Call { return ibid.Call{Key: ibid.Key{Scope: "shop", ID: id}} }
	if _, _, err := e.Do(t.Context(), key("done"), work); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for _, id := range []string{"new", "done"} {
		if _, _, err := e.Do(t.Context(), key(id), work); !errors.Is(err, ibid.ErrUnavailable) {
			t.Errorf("%s, while the server is down: %v", id, err)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("%d runs, want that of before", runs.Load())
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	got, out, err := e.Do(t.Context(), key("done"), work)
	if err != nil || !out.Replayed || string(got) != "receipt" {
		t.Errorf("after the crash: %q, %+v, %v", got, out, err)
	}
	// Killed between effect and record, and back before the caller gives up.
	restarted := make(chan error, 1)
	got, _, err = e.Do(t.Context(), key("between"), func(ctx context.Context) ([]byte, error) {
		server.Kill()
		go func() { restarted <- server.Start() }()
		return work(ctx)
	})
	if restart := <-restarted; restart != nil {
		t.Fatal(restart)
	}
	if err != nil || string(got) != "receipt" || runs.Load() != 2 {
		t.Errorf("killed between effect and record: %q, %v, %d runs", got, err, runs.Load())
	}
	got, out, err = e.Do(t.Context(), key("between"), work)
	if err != nil || !out.Replayed || string(got) != "receipt" || runs.Load() != 2 {
		t.Errorf("replayed: %q, %+v, %v, %d runs", got, out, err, runs.Load())
	}
}

func TestServerPaused(t *testing.T) {
	t.Parallel()
	server := private(t)
	s, _ := openNew(t, newDB(t, server.DSN))
	k, c := mustBegin(t, s)
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			if _, err := s.Begin(ctx, newKey(), newClaim()); err == nil {
				t.Error("a server that stands still has answered")
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("a deadline of 300 ms took %v", took)
			}
		})
	}
	wg.Wait()
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(10 * time.Second)
	for err := errors.New("not asked"); err != nil; {
		if err = s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour); err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A replica may lag: a server that is read-only is refused, when the store is
// opened and when the server becomes one. The driver's user may write all the same.
func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	server := private(t)
	db := newDB(t, server.DSN)
	s, table := openNew(t, db)
	k, c := mustBegin(t, s)
	if err := s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("SET GLOBAL read_only = ON"); err != nil {
		t.Fatal(err)
	}
	_, begin := s.Begin(t.Context(), k, newClaim())
	_, look := s.Look(t.Context(), k)
	_, list := s.List(t.Context(), ibid.Filter{}, ibid.Digest{}, 10)
	_, again := sqlstore.OpenMySQL(t.Context(), db, &sqlstore.MySQLOptions{Table: table})
	for what, err := range map[string]error{
		"Begin of a recorded key": begin, "Look": look, "List": list, "Open": again,
		"Complete": s.Complete(t.Context(), newKey(), c.Token, nil, keepHour),
	} {
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !errors.Is(again, ibid.ErrInvalid) {
		t.Errorf("Open: %v, want ErrInvalid", again)
	}
}

// Sessions in which a store would commit nothing, or read what is never
// committed, and tables without transactions.
func TestUnsafeSettingsAreRefused(t *testing.T) {
	t.Parallel()
	dsn := serverDSN(t)
	db := newDB(t, dsn)
	for _, row := range []struct{ params, says string }{
		{"?autocommit=0", "autocommit"},
		{"?tx_isolation='READ-UNCOMMITTED'", "READ UNCOMMITTED"},
	} {
		_, err := sqlstore.OpenMySQL(t.Context(), newDB(t, dsn+row.params), &sqlstore.MySQLOptions{Table: newTable(t, db)})
		if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.params, err)
		}
	}
	_, table := openNew(t, db)
	if _, err := db.Exec("ALTER TABLE " + table + " ENGINE = MyISAM"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.OpenMySQL(t.Context(), db, &sqlstore.MySQLOptions{Table: table}); !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), "InnoDB") {
		t.Errorf("MyISAM: %v", err)
	}
}

// Leases are judged in no time zone: neither that of a session nor its summer
// time changes them.
func TestTimeZonesDoNotMatter(t *testing.T) {
	t.Parallel()
	dsn := serverDSN(t)
	db := newDB(t, dsn)
	s, table := openNew(t, db)
	for _, zone := range []string{"%27%2B13%3A00%27", "%27-12%3A00%27"} { // +13:00, -12:00
		far := open(t, newDB(t, dsn+"?time_zone="+zone), &sqlstore.MySQLOptions{Table: table})
		k, c := mustBegin(t, s)
		if r, err := far.Look(t.Context(), k); err != nil || r.State != ibid.InProgress || r.Lease < 50*time.Second || r.Lease > time.Minute {
			t.Errorf("%s: %v for %v, %v", zone, r.State, r.Lease, err)
		}
		if err := far.Complete(t.Context(), k, c.Token, nil, ibid.Keep{Retain: time.Minute}); err != nil {
			t.Error(zone, err)
		}
		if r, err := s.Look(t.Context(), k); err != nil || r.State != ibid.Completed || r.Window > time.Minute || r.Window < 50*time.Second {
			t.Errorf("%s: %v for %v, %v", zone, r.State, r.Window, err)
		}
	}
}

// A Begin that claims nothing writes nothing, and locks nothing.
func TestReplayWritesNothing(t *testing.T) {
	t.Parallel()
	server := private(t)
	db := newDB(t, server.DSN)
	s, _ := openNew(t, db)
	completed, c := mustBegin(t, s)
	if err := s.Complete(t.Context(), completed, c.Token, []byte("x"), keepHour); err != nil {
		t.Fatal(err)
	}
	held, _ := mustBegin(t, s)
	status := func() map[string]string {
		t.Helper()
		rows, err := db.Query("SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_write', 'Handler_update', 'Handler_delete', 'Innodb_rows_updated', 'Innodb_rows_inserted', 'Com_stmt_execute')")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		m := make(map[string]string)
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				t.Fatal(err)
			}
			m[name] = value
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	// Row locks of a transaction that never ends stop no reader.
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := s.CompleteTx(t.Context(), tx, ibid.Completion{Key: held, Token: readToken(t, s, held), Result: []byte("y"), Keep: keepHour}); err != nil {
		t.Fatal(err)
	}
	before := status()
	for range 50 {
		for _, k := range []ibid.Digest{completed, held} {
			if r, err := s.Begin(t.Context(), k, newClaim()); err != nil || r.State == ibid.Absent {
				t.Fatal(r.State, err)
			}
		}
	}
	after := status()
	for name, value := range before {
		if name != "Com_stmt_execute" && name != "Handler_write" && after[name] != value { // SHOW STATUS itself fills a table
			t.Errorf("%s was %s and is %s", name, value, after[name])
		}
	}
	if before["Com_stmt_execute"] == after["Com_stmt_execute"] {
		t.Error("the statements were not counted")
	}
}

func readToken(t *testing.T, s ibid.Store, k ibid.Digest) ibid.Token {
	t.Helper()
	r, err := s.Look(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return r.Token
}

func TestSweepTakesNoLiveClaim(t *testing.T) {
	t.Parallel()
	s, _ := openNew(t, newDB(t, serverDSN(t)))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var sweepers, owners sync.WaitGroup
	var swept, done atomic.Int64
	for range 2 {
		sweepers.Go(func() {
			for ctx.Err() == nil {
				n, err := s.Sweep(t.Context(), 100)
				if err != nil {
					t.Error(err)
					return
				}
				swept.Add(int64(n))
			}
		})
	}
	keys := []ibid.Digest{newKey(), newKey(), newKey()}
	for i := range 6 {
		owners.Go(func() {
			for ctx.Err() == nil {
				c := newClaim()
				c.Lease, c.Window = 2*time.Second, 2*time.Second
				k := keys[i%len(keys)]
				r, err := s.Begin(t.Context(), k, c)
				if err != nil {
					t.Error(err)
					return
				}
				if !r.OwnedBy(c.Token) {
					continue
				}
				if err := s.Complete(t.Context(), k, c.Token, []byte("x"), ibid.Keep{Retain: 5 * time.Millisecond}); err != nil {
					t.Errorf("Complete of a claim that stands: %v", err)
					return
				}
				done.Add(1)
			}
		})
	}
	owners.Wait()
	sweepers.Wait()
	if swept.Load() == 0 || done.Load() < 20 {
		t.Errorf("%d swept, %d completed: nothing was at stake", swept.Load(), done.Load())
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	server := private(t, "log-bin=log", "sync-binlog=1")
	db := newDB(t, server.DSN)
	s, _ := openNew(t, db)
	for _, row := range []struct {
		setting  string
		survives ibid.Survival
		advice   string
	}{
		{"", ibid.ProcessKill | ibid.ServerKill | ibid.PowerLoss, "semi-synchronous"},
		{"innodb_flush_log_at_trx_commit = 2", ibid.ProcessKill | ibid.ServerKill, "innodb_flush_log_at_trx_commit"},
		{"innodb_flush_log_at_trx_commit = 0", ibid.ProcessKill, "innodb_flush_log_at_trx_commit"},
		{"sync_binlog = 0", ibid.ProcessKill | ibid.ServerKill, "sync_binlog"},
	} {
		if row.setting != "" {
			if _, err := db.Exec("SET GLOBAL " + row.setting); err != nil {
				t.Fatal(err)
			}
		}
		d, err := s.Describe(t.Context())
		if err != nil || d.Survives != row.survives || !strings.HasPrefix(d.Store, "MariaDB 1") {
			t.Errorf("%q: %+v, %v", row.setting, d, err)
		}
		var all strings.Builder
		for bit := ibid.ProcessKill; bit <= ibid.Failover; bit <<= 1 {
			if (d.Survives&bit == 0) != (d.Advice[bit] != "") {
				t.Errorf("%q: %v: advice %q", row.setting, bit, d.Advice[bit])
			}
			all.WriteString(d.Advice[bit])
		}
		if !strings.Contains(all.String(), row.advice) {
			t.Errorf("%q: %v does not mention %s", row.setting, d.Advice, row.advice)
		}
		if _, err := db.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1, GLOBAL sync_binlog = 1"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	db := newDB(t, serverDSN(t))
	table := newTable(t, db)
	opts := &sqlstore.MySQLOptions{Table: table, NoMigrate: true}
	if _, err := sqlstore.OpenMySQL(t.Context(), db, opts); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("without a table: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := sqlstore.MigrateMySQL(t.Context(), db, table); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	mustBegin(t, open(t, db, opts))
	if _, err := db.Exec("UPDATE " + table + "_schema SET version = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.OpenMySQL(t.Context(), db, opts); !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer schema: %v", err)
	}
	if _, err := sqlstore.MySQLSchema("x; DROP TABLE payments"); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("a name that is a statement: %v", err)
	}
	if _, err := sqlstore.OpenMySQL(t.Context(), nil, nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("no database: %v", err)
	}
}

func TestResultTooLarge(t *testing.T) {
	t.Parallel()
	server := private(t, "max-allowed-packet=1M")
	s, _ := openNew(t, newDB(t, server.DSN))
	k, c := mustBegin(t, s)
	if err := s.Complete(t.Context(), k, c.Token, make([]byte, 1<<20), keepHour); !errors.Is(err, ibid.ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	if err := s.Complete(t.Context(), k, c.Token, make([]byte, 1<<20-64<<10), keepHour); err != nil {
		t.Errorf("the largest: %v", err)
	}
	if r, err := s.Begin(t.Context(), k, newClaim()); err != nil || len(r.Result) != 1<<20-64<<10 {
		t.Errorf("%d bytes, %v", len(r.Result), err)
	}
}

// What sweeping and listing look at are copies: the record decides.
func TestCopiesDecideNothing(t *testing.T) {
	t.Parallel()
	db := newDB(t, serverDSN(t))
	s, table := openNew(t, db)
	k, c := mustBegin(t, s)
	if _, err := db.Exec("UPDATE "+table+" SET gone = 1 WHERE `key` = ?", k[:]); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(t.Context(), 10); err != nil || n != 0 {
		t.Errorf("%d swept, %v", n, err)
	}
	if err := s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour); err != nil {
		t.Error(err)
	}
	var gone int64
	if err := db.QueryRow("SELECT gone FROM "+table+" WHERE `key` = ?", k[:]).Scan(&gone); err != nil || gone < 1e18 {
		t.Errorf("the copy is %d, %v", gone, err)
	}
}

// Of those who take a lapsed claim over at once, one owns it.
func TestOneTakesOver(t *testing.T) {
	t.Parallel()
	s, _ := openNew(t, newDB(t, serverDSN(t)))
	for range 10 {
		k, c := mustBegin(t, s)
		if err := s.Extend(t.Context(), k, c.Token, 0); err != nil {
			t.Fatal(err)
		}
		var owners atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 12 {
			wg.Go(func() {
				taker := newClaim()
				taker.Fingerprint = c.Fingerprint
				<-start
				if r, err := s.Begin(t.Context(), k, taker); err != nil {
					t.Error(err)
				} else if r.OwnedBy(taker.Token) {
					owners.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if r, err := s.Look(t.Context(), k); owners.Load() != 1 || err != nil || r.Attempt != 2 || r.Vanished != 1 {
			t.Errorf("%d owners, %+v, %v", owners.Load(), r, err)
		}
	}
}
