package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

func TestOpenRefusesWhatCannotKeepAPromise(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		path  string
		opts  *sqlstore.SQLiteOptions
		setup string
		conns int
		says  string
		why   string
	}{
		{name: "in memory", path: ":memory:", says: "in memory", why: "every connection would have a database of its own"},
		{name: "temporary", path: "", says: "in memory", why: "the same, on disk"},
		{name: "too few connections", conns: 3, says: "SetMaxOpenConns", why: "readers would wait for the writer's connection for ever"},
		{name: "no table, and may not make it", opts: &sqlstore.SQLiteOptions{NoMigrate: true}, says: "NoMigrate", why: "the schema is kept elsewhere, and was forgotten"},
		{
			name: "a table from the future", setup: "CREATE TABLE ibid_record_schema (version INTEGER); INSERT INTO ibid_record_schema VALUES (2)",
			says: "version 2, this program knows 1", why: "an old program must not run again what a new one recorded",
		},
		{name: "a table name that is a statement", opts: &sqlstore.SQLiteOptions{Table: "a;b"}, says: `"a;b"`, why: "names are not quoted"},
		{name: "an unknown setting", opts: &sqlstore.SQLiteOptions{Synchronous: 9}, says: "SQLiteOptions.Synchronous", why: "a typo must not mean OFF"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := row.path
			if row.name != "in memory" && row.name != "temporary" {
				path = filepath.Join(tempDir(t), "x.db")
			}
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(row.conns)
			if row.setup != "" {
				if _, err := db.Exec(row.setup); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sqlstore.OpenSQLite(t.Context(), db, row.opts)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want ErrInvalid that says %q: %s", err, row.says, row.why)
			}
		})
	}
}

func TestOpenOfWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "x.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := sqlstore.OpenSQLite(t.Context(), db, nil); !errors.Is(err, ibid.ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
}

func TestTablesOfOneFileAreApart(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	k, _ := f.completed("answer")
	other, err := sqlstore.OpenSQLite(t.Context(), f.db, &sqlstore.SQLiteOptions{Table: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c := newClaim()
	if r, err := other.Begin(t.Context(), k, c); err != nil || !r.OwnedBy(c.Token) {
		t.Errorf("%v, %v, want the claim: the table is another", r.State, err)
	}
	f.state(k, ibid.Completed)
}

func TestTheSchemaCanBeMadeByHand(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(tempDir(t), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	schema, err := sqlstore.SQLiteSchema("mine")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // again changes nothing
		if _, err := db.Exec(schema); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sqlstore.OpenSQLite(t.Context(), db, &sqlstore.SQLiteOptions{Table: "mine", NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Begin(t.Context(), newKey(), newClaim()); err != nil {
		t.Error(err)
	}
}

func TestRecordsOutliveTheStore(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	k, _ := f.completed("answer")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.OpenSQLite(t.Context(), f.raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Look(t.Context(), k); err != nil || string(r.Result) != "answer" {
		t.Errorf("%q, %v, want the answer", r.Result, err)
	}
}

func TestAClosedStore(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	k, c := f.owned()
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, lookErr := f.Look(t.Context(), k)
	_, describeErr := f.Describe(t.Context())
	for verb, err := range map[string]error{"Look": lookErr, "Describe": describeErr, "Complete": f.complete(k, c, "x")} {
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: %v, want an error that says closed", verb, err)
		}
	}
	if _, err := f.db.Exec("CREATE TABLE t (x)"); err != nil {
		t.Errorf("the caller's database: %v, want it to be as it was given", err)
	}
	if n := f.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are still in use", n)
	}
}

func TestDescribeReadsTheSettings(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sync     sqlstore.Synchronous
		survives ibid.Survival
		advice   string
	}{
		{sqlstore.SyncFull, ibid.ProcessKill | ibid.ServerKill | ibid.PowerLoss, ""},
		{sqlstore.SyncExtra, ibid.ProcessKill | ibid.ServerKill | ibid.PowerLoss, ""},
		{sqlstore.SyncNormal, ibid.ProcessKill | ibid.ServerKill, "synchronous is NORMAL"},
	} {
		t.Run(row.sync.String(), func(t *testing.T) {
			t.Parallel()
			f := open(t, &sqlstore.SQLiteOptions{Synchronous: row.sync})
			d, err := f.Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d.Survives != row.survives || !strings.HasPrefix(d.Store, "SQLite 3.") {
				t.Errorf("%s survives %v, want %v", d.Store, d.Survives, row.survives)
			}
			if !strings.Contains(d.Advice[ibid.PowerLoss], row.advice) {
				t.Errorf("advice %q, want %q", d.Advice[ibid.PowerLoss], row.advice)
			}
			_, err = ibid.New(t.Context(), f, &ibid.Options{Require: ibid.PowerLoss})
			if wants := row.survives&ibid.PowerLoss == 0; wants != errors.Is(err, ibid.ErrInvalid) {
				t.Errorf("an engine that requires it: %v", err)
			}
		})
	}
}

func TestAReadOnlyFileStillReplays(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	k, _ := f.completed("answer")
	db, err := sql.Open("sqlite", "file:"+f.path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlstore.OpenSQLite(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Begin(t.Context(), k, newClaim()); err != nil || string(r.Result) != "answer" {
		t.Errorf("replay: %q, %v, want the answer", r.Result, err)
	}
	if r, err := s.Begin(t.Context(), newKey(), newClaim()); err == nil || !strings.Contains(err.Error(), "may only be read") {
		t.Errorf("Begin: %v, %v, want an error that says why", r.State, err)
	}
}

// Reads wait for nobody who holds the lock; writes wait within BusyTimeout and
// the caller's context.
func TestTheLockIsHeldElsewhere(t *testing.T) {
	t.Parallel()
	f := open(t, &sqlstore.SQLiteOptions{BusyTimeout: 24 * time.Hour})
	impatient, err := sqlstore.OpenSQLite(t.Context(), f.raw, &sqlstore.SQLiteOptions{BusyTimeout: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()
	done, _ := f.completed("answer")
	held, c := f.owned()
	unlock := f.lock()

	// These would wait for a day.
	if r, err := f.Begin(t.Context(), done, newClaim()); err != nil || string(r.Result) != "answer" {
		t.Errorf("replay: %q, %v", r.Result, err)
	}
	if r, err := f.Begin(t.Context(), held, newClaim()); err != nil || r.State != ibid.InProgress {
		t.Errorf("conflict: %v, %v", r.State, err)
	}
	f.state(held, ibid.InProgress)
	if entries, err := f.List(t.Context(), ibid.Filter{}, ibid.Digest{}, 10); err != nil || len(entries) != 2 {
		t.Errorf("list: %d, %v", len(entries), err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := f.Complete(ctx, held, c.Token, nil, ibid.Keep{Retain: long}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's error", err)
	}
	err = impatient.Complete(t.Context(), held, c.Token, []byte("answer"), ibid.Keep{Retain: long})
	if err == nil || !strings.Contains(err.Error(), "BusyTimeout") {
		t.Errorf("%v, want an error that names BusyTimeout", err)
	}
	unlock()

	// A reader who does not end holds up no writer.
	tx, err := f.raw.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM ibid_record").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := f.complete(held, c, "answer"); err != nil {
		t.Error(err)
	}
}
