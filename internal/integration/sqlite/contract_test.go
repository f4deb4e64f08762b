package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/storetest"
)

// opened knows the database of every store under test.
var opened sync.Map // *sqlstore.SQLite → *sql.DB

// target is a store on a file of its own, per case.
func target() storetest.Target {
	return storetest.Target{
		Open: func(ctx context.Context) (ibid.Store, func() error, error) {
			dir, err := os.MkdirTemp("", "ibid-sqlite-")
			if err != nil {
				return nil, nil, err
			}
			s, closeStore, err := openFile(ctx, filepath.Join(dir, "ibid.db"))
			return s, func() error { return errors.Join(closeStore(), os.RemoveAll(dir)) }, err
		},
		Second: func(ctx context.Context, s ibid.Store) (ibid.Store, func() error, error) {
			db, _ := opened.Load(s)
			var file string
			if err := db.(*sql.DB).QueryRowContext(ctx, "SELECT file FROM pragma_database_list").Scan(&file); err != nil {
				return nil, nil, err
			}
			return openFile(ctx, file)
		},
		Corrupt: func(ctx context.Context, s ibid.Store, key ibid.Digest, change func([]byte) []byte) error {
			db, _ := opened.Load(s)
			var b []byte
			if err := db.(*sql.DB).QueryRowContext(ctx, "SELECT record FROM ibid_record WHERE key = ?", key[:]).Scan(&b); err != nil {
				return err
			}
			b = change(b)
			if b == nil {
				b = []byte{}
			}
			_, err := db.(*sql.DB).ExecContext(ctx, "UPDATE ibid_record SET record = ? WHERE key = ?", b, key[:])
			return err
		},
		Resolution: 1,
		Parallel:   true,
	}
}

func openFile(ctx context.Context, path string) (ibid.Store, func() error, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, func() error { return nil }, err
	}
	s, err := sqlstore.OpenSQLite(ctx, db, nil)
	if err != nil {
		return nil, db.Close, err
	}
	opened.Store(s, db)
	return s, func() error { opened.Delete(s); return errors.Join(s.Close(), db.Close()) }, nil
}

// On a fake clock the edges of leases and windows are hit to the nanosecond.
func TestContract(t *testing.T) {
	t.Parallel()
	fake := target()
	fake.FakeClock = true
	fake.Tick = time.Second
	storetest.RunIn(t, fake, synctest.Test)
}

// The races are run on the host's clock too, where goroutines meet as they do
// in a program.
func TestContractOnTheHostsClock(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for real leases to lapse")
	}
	t.Parallel()
	storetest.Run(t, target())
}
