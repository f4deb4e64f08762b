package sqlite

import (
	"database/sql/driver"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// statements counts what the store asks of SQLite.
func (f *fixture) statements(call func()) (all, commits int) {
	var mu sync.Mutex
	f.hook.set(func(q string, _ []driver.NamedValue) error {
		mu.Lock()
		defer mu.Unlock()
		all++
		if strings.HasPrefix(q, "COMMIT") {
			commits++
		}
		return nil
	}, nil)
	defer f.hook.set(nil, nil)
	call()
	return all, commits
}

// version changes with every commit that wrote.
func (f *fixture) version() (v int) {
	f.t.Helper()
	if err := f.raw.QueryRow("PRAGMA data_version").Scan(&v); err != nil {
		f.t.Fatal(err)
	}
	return v
}

func TestWhatACallCosts(t *testing.T) {
	t.Parallel()
	f := open(t, &sqlstore.SQLiteOptions{Readers: 1}) // the first use of each prepares statements
	f.raw.SetMaxOpenConns(1)                          // data_version compares with what this connection saw last
	ctx := t.Context()
	done, doneClaim := f.completed("answer")
	held, heldClaim := f.owned()
	fresh, freshClaim := newKey(), newClaim()
	for _, row := range []struct {
		name         string
		call         func() error
		all, commits int
		why          string
	}{
		{"replay", func() error { _, err := f.Begin(ctx, done, newClaim()); return err }, 1, 0, "a replay costs one read and writes nothing"},
		{"conflict", func() error { _, err := f.Begin(ctx, held, newClaim()); return err }, 1, 0, "a Begin that claims nothing writes nothing"},
		{"look", func() error { _, err := f.Look(ctx, fresh); return err }, 1, 0, "a look changes nothing"},
		{"claim", func() error { _, err := f.Begin(ctx, fresh, freshClaim); return err }, 5, 1, "looked at, then decided under the lock: begin, read, write, commit"},
		{"complete", func() error { return f.complete(fresh, freshClaim, "x") }, 4, 1, "one transaction"},
		{"complete again", func() error { return f.complete(done, doneClaim, "answer") }, 3, 0, "nothing is written twice: begin, read, roll back"},
		{"release of what is completed", func() error { return f.Release(ctx, done, doneClaim.Token) }, 3, 0, "it changes nothing"},
		{"extend", func() error { return f.Extend(ctx, held, heldClaim.Token, time.Minute) }, 4, 1, "one transaction"},
		{"sweep of nothing", func() error { _, err := f.Sweep(ctx, 100); return err }, 1, 0, "a sweep that finds nothing takes no lock"},
	} {
		before := f.version()
		all, commits := f.statements(func() {
			if err := row.call(); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
		})
		if all != row.all || commits != row.commits {
			t.Errorf("%s: %d statements and %d commits, want %d and %d: %s", row.name, all, commits, row.all, row.commits, row.why)
		}
		if wrote := f.version() != before; wrote != (row.commits > 0) {
			t.Errorf("%s: wrote %v, want %v: %s", row.name, wrote, row.commits > 0, row.why)
		}
	}
}

func TestWaitersOfThisProcessAreWoken(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	ctx := t.Context()
	for _, row := range []struct {
		name  string
		call  func(k ibid.Digest, c ibid.Claim) error
		wakes bool
	}{
		{"completed", func(k ibid.Digest, c ibid.Claim) error { return f.complete(k, c, "x") }, true},
		{"released", func(k ibid.Digest, c ibid.Claim) error { return f.Release(ctx, k, c.Token) }, true},
		{"given up", func(k ibid.Digest, c ibid.Claim) error { return f.Extend(ctx, k, c.Token, 0) }, true},
		{"forgotten", func(k ibid.Digest, c ibid.Claim) error { return f.Forget(ctx, k, c.Token, long) }, true},
		{"renewed", func(k ibid.Digest, c ibid.Claim) error { return f.Extend(ctx, k, c.Token, long) }, false},
		{"another key completed", func(ibid.Digest, ibid.Claim) error { f.completed("x"); return nil }, false},
	} {
		k, c := f.owned()
		changed, stop, err := f.Watch(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		if err := row.call(k, c); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		select {
		case <-changed:
			if !row.wakes {
				t.Errorf("%s: woken", row.name)
			}
		default:
			if row.wakes {
				t.Errorf("%s: not woken", row.name)
			}
		}
		stop()
		stop()
	}
}
