package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// gate lets statements that begin with a word pass one by one.
type gate struct {
	word  string
	calls atomic.Int32
	open  chan struct{}
}

func newGate(word string) *gate { return &gate{word: word, open: make(chan struct{}, 1000)} }

func (g *gate) pass(query string, _ []driver.NamedValue) error {
	if strings.HasPrefix(query, g.word) {
		g.calls.Add(1)
		<-g.open
	}
	return nil
}

func TestWritesThatComeTogetherShareACommit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		batch   int
		commits int32
		why     string
	}{
		{"as many as there are", 0, 2, "the first was alone, the others came while it committed"},
		{"bounded", 10, 1 + 7, "a batch holds its leader's call too: 63 in tens"},
		{"each alone", 1, 64, "what the benchmark compares with"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := open(t, &sqlstore.SQLiteOptions{MaxBatch: row.batch})
				f.owned() // the store has prepared its statements
				g := newGate("COMMIT")
				f.hook.set(g.pass, nil)
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() { f.owned() })
				}
				synctest.Wait()
				if n := g.calls.Load(); n != 1 {
					t.Errorf("%d commits at once, want 1", n)
				}
				for range 64 {
					g.open <- struct{}{}
				}
				wg.Wait()
				if n := g.calls.Load(); n != row.commits {
					t.Errorf("%d commits for 64 claims, want %d: %s", n, row.commits, row.why)
				}
			})
		})
	}
}

// together runs calls so that all but the first are in one batch.
func together(t *testing.T, f *fixture, calls ...func()) {
	t.Helper()
	g := newGate("COMMIT")
	f.hook.mu.Lock()
	before := f.hook.before
	f.hook.mu.Unlock()
	f.hook.set(func(q string, args []driver.NamedValue) error {
		_ = g.pass(q, args)
		if before != nil {
			return before(q, args)
		}
		return nil
	}, f.hook.after)
	var wg sync.WaitGroup
	wg.Go(func() { f.owned() })
	synctest.Wait()
	for _, call := range calls {
		wg.Go(call)
		synctest.Wait()
	}
	for range 1 + 2*len(calls) {
		g.open <- struct{}{}
	}
	wg.Wait()
}

func TestAnErrorOfOneCallFailsNoOther(t *testing.T) {
	t.Parallel()
	full := errors.New("database or disk is full (13)")
	for _, row := range []struct {
		name string
		fail func(f *fixture, bad ibid.Digest) // makes what call asks for fail
		call func(f *fixture, bad ibid.Digest) error
		want error
		why  string
	}{
		{"a statement fails", func(f *fixture, bad ibid.Digest) {
			f.hook.before = func(q string, args []driver.NamedValue) error {
				if strings.HasPrefix(q, "INSERT") && string(args[0].Value.([]byte)) == string(bad[:]) {
					return full
				}
				return nil
			}
		}, func(f *fixture, bad ibid.Digest) error {
			_, err := f.Begin(context.Background(), bad, newClaim())
			return err
		}, full, "SQLite may undo the whole transaction, and the others must be written again"},
		{"the record is damaged", func(f *fixture, bad ibid.Digest) {
			f.exec("INSERT INTO ibid_record VALUES (?, 0, x'', x'00')", bad[:])
		}, func(f *fixture, bad ibid.Digest) error {
			return f.Release(context.Background(), bad, ibid.NewToken())
		}, ibid.ErrDamaged, "what cannot be read concerns its own key only"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := open(t, nil)
				bad := newKey()
				k1, c1 := f.owned()
				k2, c2 := f.owned()
				row.fail(f, bad)
				var err1, err2, errBad error
				together(t, f,
					func() { err1 = f.complete(k1, c1, "one") },
					func() { errBad = row.call(f, bad) },
					func() { err2 = f.complete(k2, c2, "two") },
				)
				if err1 != nil || err2 != nil {
					t.Errorf("its neighbours fail: %v, %v (%s)", err1, err2, row.why)
				}
				if !errors.Is(errBad, row.want) {
					t.Errorf("%v, want %v", errBad, row.want)
				}
				f.state(k1, ibid.Completed)
				f.state(k2, ibid.Completed)
			})
		})
	}
}

func TestAFailedCommitLeavesItUnknownAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	lost := errors.New("the disk is gone")
	for _, row := range []struct {
		name    string
		applied bool
		state   ibid.State
		why     string
	}{
		{"applied, reply lost", true, ibid.Completed, "hazards 9 and 10: the same verb again finds its own work"},
		{"not applied", false, ibid.InProgress, "the claim still stands, and the same verb again does it"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := open(t, nil)
				k, c := f.owned()
				k2, c2 := newKey(), newClaim()
				commits := 0
				fail := func(q string, _ []driver.NamedValue) error {
					if q == "COMMIT" {
						if commits++; commits == 2 { // the batch behind the first call
							return lost
						}
					}
					return nil
				}
				if row.applied {
					f.hook.after = fail
				} else {
					f.hook.before = fail
				}
				var err, err2 error
				together(t, f,
					func() { err = f.complete(k, c, "answer") },
					func() { _, err2 = f.Begin(t.Context(), k2, c2) },
				)
				if !errors.Is(err, lost) || !errors.Is(err2, lost) {
					t.Fatalf("%v, %v, want both to say that the commit failed", err, err2)
				}
				f.hook.set(nil, nil)
				f.state(k, row.state)
				if err := f.complete(k, c, "answer"); err != nil {
					t.Errorf("Complete again: %v (%s)", err, row.why)
				}
				f.begin(k2, c2)
				if r := f.state(k2, ibid.InProgress); r.Attempt != 1 {
					t.Errorf("attempt %d, want 1 (%s)", r.Attempt, row.why)
				}
				if err := f.complete(k, c, "another"); !errors.Is(err, ibid.ErrClaimLost) {
					t.Errorf("Complete with another result: %v, want ErrClaimLost", err)
				}
			})
		})
	}
}

// A caller that leaves while its call waits takes it back.
func TestACallerThatLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := open(t, nil)
		g := newGate("COMMIT")
		f.hook.set(g.pass, nil)
		var wg sync.WaitGroup
		wg.Go(func() { f.owned() })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		k, left := newKey(), make(chan error, 1)
		go func() { _, err := f.Begin(ctx, k, newClaim()); left <- err }()
		synctest.Wait()
		wg.Go(func() { f.owned() })
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
		g.open <- struct{}{}
		g.open <- struct{}{}
		wg.Wait()
		f.state(k, ibid.Absent)
	})
}

// A caller that leaves while its batch is written does not wait for it. What it
// asked for is done, with the bytes that it gave.
func TestACallerThatLeavesItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := open(t, nil)
		k, c := f.owned()
		k1, c1 := f.owned()
		g := newGate("SELECT")
		f.hook.set(g.pass, nil)
		extend := func() {
			if err := f.Extend(t.Context(), k1, c1.Token, long); err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(extend)
		synctest.Wait()
		wg.Go(extend) // leads the next batch
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		left, result := make(chan error, 1), []byte("answer")
		go func() { left <- f.Complete(ctx, k, c.Token, result, ibid.Keep{Retain: long}) }()
		synctest.Wait()
		g.open <- struct{}{}
		synctest.Wait() // the call is taken, and its record not read yet
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
		clear(result) // the caller's again
		g.open <- struct{}{}
		g.open <- struct{}{}
		wg.Wait()
		f.hook.set(nil, nil)
		if r := f.state(k, ibid.Completed); string(r.Result) != "answer" {
			t.Errorf("result %q, want what was given", r.Result)
		}
	})
}

// A leader that leaves while the lock is held elsewhere hands on: those behind
// it are served when the lock is free.
func TestALeaderThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := open(t, &sqlstore.SQLiteOptions{BusyTimeout: 24 * time.Hour})
		unlock := f.lock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		k, left := newKey(), make(chan error, 1)
		go func() { _, err := f.Begin(ctx, k, newClaim()); left <- err }()
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { f.owned() })
		if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want context.DeadlineExceeded", err)
		}
		unlock()
		wg.Wait()
		f.state(k, ibid.Absent)
	})
}

// A leader that was woken to lead just as its context ended hands on, too.
func TestACallerThatLeavesAsItIsToLead(t *testing.T) {
	t.Parallel()
	f := open(t, &sqlstore.SQLiteOptions{MaxBatch: 1})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*10*time.Microsecond)
				_, err := f.Begin(ctx, newKey(), newClaim())
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.owned() // somebody leads still
}
