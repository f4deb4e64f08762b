package clientfaults_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidclient"
	"github.com/ibid-go/ibid/sqlstore"
)

// TestStoreJournalOnSQLite: what one process kept is pending for the next one,
// on a store that a process leaves behind.
func TestStoreJournalOnSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	process := func(f func(j *ibidclient.StoreJournal)) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		store, err := sqlstore.OpenSQLite(t.Context(), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		j, err := ibidclient.NewStoreJournal(store, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		f(j)
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	kept := ibidclient.Entry{Key: "k", Label: "order 17", Method: "POST", URL: "http://shop.test/", Fingerprint: ibid.Fingerprint{1, 2, 3}}
	process(func(j *ibidclient.StoreJournal) {
		if _, earlier, err := j.Keep(t.Context(), kept); err != nil || earlier {
			t.Fatal(earlier, err)
		}
	})
	process(func(j *ibidclient.StoreJournal) {
		p, err := j.Pending(t.Context())
		if err != nil || len(p) != 1 || p[0].Age <= 0 {
			t.Fatalf("%+v, %v", p, err)
		}
		p[0].Age = 0
		if p[0] != kept {
			t.Errorf("%+v, want %+v", p[0], kept)
		}
		stands, earlier, err := j.Keep(t.Context(), ibidclient.Entry{Key: "k", Method: "PUT", Fingerprint: ibid.Fingerprint{9}})
		if err != nil || !earlier || stands.Label != "order 17" {
			t.Errorf("kept again: %+v, %v, %v", stands, earlier, err)
		}
		if err := j.Done(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	})
	process(func(j *ibidclient.StoreJournal) {
		if p, err := j.Pending(t.Context()); err != nil || len(p) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
