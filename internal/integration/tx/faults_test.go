package tx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/pgxstore"
)

var postgres = databases[1]

// The reply to COMMIT is lost, or the session dies before COMMIT reaches the server:
// the record says which, and the work does not run again for it.
func TestPostgresCommitOutcomeIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		applied bool
		want    error
		effects int
	}{{"applied", true, nil, 1}, {"not applied", false, ibid.ErrUnavailable, 0}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			where := freshPostgres(t)
			u, err := url.Parse(where)
			if err != nil {
				t.Fatal(err)
			}
			proxy := servers.NewProxy(t, u.Host)
			direct := join(t, postgres, where, 0)
			if err := direct.auto(t.Context(), tables); err != nil {
				t.Fatal(err)
			}
			u.Host = proxy.Addr
			b := join(t, postgres, u.String(), 0)
			call, id := b.newCall()
			var runs atomic.Int64
			work := b.work(id, &runs, func(ctx context.Context) error {
				if row.applied {
					proxy.SwallowReply(func(sent []byte) bool { return bytes.Contains(sent, []byte("receipt "+id)) })
					return nil
				}
				tx, _ := pgxstore.Tx(ctx)
				return direct.auto(ctx, fmt.Sprintf("SELECT pg_terminate_backend(%d)", tx.Conn().PgConn().PID()))
			})
			data, _, err := b.engine.Do(t.Context(), call, work)
			if !errors.Is(err, row.want) || err == nil && string(data) != "receipt "+id || runs.Load() != 1 || b.effects(id) != row.effects {
				t.Fatalf("%q, %v after %d runs, %d effects, want %v and %d", data, err, runs.Load(), b.effects(id), row.want, row.effects)
			}
			if row.applied && proxy.Fired() != 1 {
				t.Fatal("no answer was lost: nothing was tested")
			}
			data, _, err = b.engine.Do(t.Context(), call, b.work(id, &runs, nil))
			if err != nil || string(data) != "receipt "+id || b.effects(id) != 1 {
				t.Fatalf("the next call: %q, %v, %d effects", data, err, b.effects(id))
			}
		})
	}
}

// The server is killed again and again under its clients. What was answered stays,
// and what was not is done once.
func TestPostgresServerKills(t *testing.T) {
	t.Parallel()
	kills := 8
	if testing.Short() {
		kills = 2
	}
	server, err := servers.StartPostgres()
	servers.Need(t, err)
	t.Cleanup(server.Stop)
	where := newSchema(t, server.URL)
	b := join(t, postgres, where, 0)
	if err := b.auto(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var answered, failed atomic.Int64
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				call, id := b.newCall()
				want := ""
				for try := 0; ; try++ { // a client that retries until it is told
					data, _, err := b.engine.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
						for _, part := range []string{"stock", "charge"} {
							if err := b.charge(ctx, id, part); err != nil {
								return nil, err
							}
						}
						return fmt.Appendf(nil, "%s in try %d", id, try), nil
					})
					if err == nil && want != "" && string(data) != want {
						t.Errorf("%s: answered %q, then %q", id, want, data)
					}
					if err == nil && want != "" {
						break
					}
					if err == nil {
						want = string(data)
						answered.Add(1)
						continue // and asks once more
					}
					failed.Add(1)
					if try > 600 {
						t.Errorf("%s: %v", id, err)
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
				for try := 0; ; try++ {
					n, err := b.count(context.Background(), fmt.Sprintf("SELECT count(*) FROM ledger WHERE id = '%s'", id))
					if err == nil && n != 2 || err != nil && try > 600 {
						t.Errorf("%s: %d effects, %v, want 2", id, n, err)
					}
					if err == nil || try > 600 {
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	struck := 0
	for range kills {
		time.Sleep(100*time.Millisecond + rand.N(100*time.Millisecond))
		before := failed.Load()
		server.Kill()
		if err := server.Start(); err != nil {
			t.Error(err)
			break
		}
		time.Sleep(200 * time.Millisecond)
		if failed.Load() > before {
			struck++
		}
	}
	close(done)
	wg.Wait()
	t.Logf("%d server kills, %d of them cut calls off: %d operations answered, %d calls failed on the way", kills, struck, answered.Load(), failed.Load())
	if struck < kills/2 || answered.Load() < 20 {
		t.Error("too few: nothing was tested")
	}
}

// Two transactions that cannot both commit: one is run again, whole, and both have
// their effect once.
func TestPostgresConflictsRunAgain(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, param string
		// meet is a statement of one transaction, of two, before and after both are there.
		before, after func(i int) string
	}{
		{
			"a serialization failure", "&default_transaction_isolation=serializable",
			func(int) string { return "SELECT n FROM counter WHERE id = 0" },
			func(int) string { return "UPDATE counter SET n = n + 1 WHERE id = 0" },
		},
		{
			"a deadlock", "&deadlock_timeout=100",
			func(i int) string { return fmt.Sprintf("UPDATE counter SET n = n + 1 WHERE id = %d", i) },
			func(i int) string { return fmt.Sprintf("UPDATE counter SET n = n + 1 WHERE id = %d", 1-i) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			where := freshPostgres(t) + row.param
			b := join(t, postgres, where, 0)
			if err := b.auto(t.Context(), tables+"; CREATE TABLE counter (id int, n int); INSERT INTO counter VALUES (0, 0), (1, 0)"); err != nil {
				t.Fatal(err)
			}
			var runs atomic.Int64
			var there, wg sync.WaitGroup
			there.Add(2)
			for i := range 2 {
				call, id := b.newCall()
				first := true
				wg.Go(func() {
					_, _, err := b.engine.Do(t.Context(), call, b.work(id, &runs, func(ctx context.Context) error {
						if err := b.exec(ctx, row.before(i)); err != nil {
							return err
						}
						if first {
							first = false
							there.Done()
							there.Wait()
						}
						return b.exec(ctx, row.after(i))
					}))
					if err != nil || b.effects(id) != 1 {
						t.Errorf("%v, %d effects", err, b.effects(id))
					}
				})
			}
			wg.Wait()
			n, err := b.count(t.Context(), "SELECT max(n) FROM counter")
			if err != nil || n != 2 || runs.Load() < 3 {
				t.Errorf("counter %d, %v, after %d runs, want 2 after 3: they did not meet", n, err, runs.Load())
			}
		})
	}
}

// The engine ends the transaction, and nobody else.
func TestPostgresWorkCannotEndItsTransaction(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		end     func(context.Context, pgx.Tx) error
		refused bool // by the method; else by the engine, at the end
		effects int
	}{
		{"Commit", func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, true, 1},
		{"Rollback", func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, true, 1},
		{"ROLLBACK", func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "ROLLBACK"); return err }, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := join(t, postgres, freshPostgres(t), 0)
			if err := b.auto(t.Context(), tables); err != nil {
				t.Fatal(err)
			}
			call, id := b.newCall()
			_, _, err := pgxstore.Do(t.Context(), b.engine, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
				if err := b.charge(ctx, id, "charge"); err != nil {
					return "", err
				}
				if err := row.end(ctx, tx); errors.Is(err, ibid.ErrInvalid) != row.refused {
					t.Errorf("%v", err)
				}
				return "receipt", nil
			})
			op, lookErr := b.engine.Inspect(t.Context(), b.engine.Digest(call.Key))
			if (err == nil) != row.refused || lookErr != nil || (op.Record.State == ibid.Completed) != row.refused || b.effects(id) != row.effects {
				t.Errorf("%v, %v, record %v, %d effects", err, lookErr, op.Record.State, b.effects(id))
			}
		})
	}
}

// The work's own lock_timeout is as it was, also where the claim had to wait.
func TestPostgresWaitingLeavesNoTimeoutBehind(t *testing.T) {
	t.Parallel()
	where := freshPostgres(t) + "&lock_timeout=4321"
	b, other := join(t, postgres, where, 0), join(t, postgres, where, 0)
	if err := b.auto(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	call, id := b.newCall()
	holds := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _, _ = b.engine.Do(t.Context(), call, b.work(id, nil, func(context.Context) error {
			close(holds)
			time.Sleep(200 * time.Millisecond)
			return errors.New("no")
		}))
	})
	<-holds
	began := time.Now()
	call.Tx = other.store
	_, _, err := pgxstore.Do(t.Context(), other.engine, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
		var timeout string
		err := tx.QueryRow(ctx, "SHOW lock_timeout").Scan(&timeout)
		if timeout != "4321ms" {
			t.Errorf("lock_timeout is %s in the work", timeout)
		}
		return timeout, err
	})
	wg.Wait()
	if err != nil || time.Since(began) < 50*time.Millisecond {
		t.Errorf("%v after %v: it did not wait", err, time.Since(began))
	}
}

// A claim of lease mode does not know the lock. What it records while a transaction
// works is met at the unique key: the transaction is undone, and its caller gets the
// answer that stands.
func TestPostgresStaleReadMeetsTheUniqueKey(t *testing.T) {
	t.Parallel()
	for _, undo := range []bool{false, true} {
		t.Run(fmt.Sprintf("undo %v", undo), func(t *testing.T) {
			t.Parallel()
			b := join(t, postgres, freshPostgres(t), 0)
			if err := b.auto(t.Context(), tables); err != nil {
				t.Fatal(err)
			}
			call, id := b.newCall()
			var runs atomic.Int64
			data, out, err := b.engine.Do(t.Context(), call, b.work(id, &runs, func(ctx context.Context) error {
				lease := call
				lease.Tx = nil
				twin, err := newEngine(t.Context(), b.opened)
				if err == nil {
					_, _, err = twin.Do(t.Context(), lease, func(context.Context) ([]byte, error) { return []byte("theirs"), nil })
				}
				if undo {
					ibid.UndoWrites(ctx)
				}
				return err
			}))
			if err != nil || string(data) != "theirs" || !out.Replayed || runs.Load() != 1 || b.effects(id) != 0 {
				t.Errorf("%q, %+v, %v, %d runs, %d effects: want the answer that stands", data, out, err, runs.Load(), b.effects(id))
			}
		})
	}
}
