package pg_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/pgxstore"
)

func newClaim() ibid.Claim {
	return ibid.Claim{
		Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint(newKey()), Scope: newKey(),
		Lease: time.Minute, Window: time.Hour, MaxTakeovers: -1,
	}
}

var keepHour = ibid.Keep{Retain: time.Hour}

// mustBegin claims a new key.
func mustBegin(t *testing.T, s ibid.Store) (ibid.Digest, ibid.Claim) {
	t.Helper()
	k, c := newKey(), newClaim()
	if r, err := s.Begin(t.Context(), k, c); err != nil || !r.OwnedBy(c.Token) {
		t.Fatalf("Begin: %v, %v", r.State, err)
	}
	return k, c
}

// behind returns a pool whose connections pass through a proxy.
func behind(t *testing.T, address string) (*servers.Proxy, *pgxpool.Pool) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := servers.NewProxy(t, u.Host)
	u.Host = proxy.Addr
	return proxy, newPool(t, u.String(), func(c *pgxpool.Config) { c.MaxConns = 4 })
}

// mentions reports whether a request carries a key.
func mentions(key ibid.Digest) func([]byte) bool {
	return func(sent []byte) bool { return bytes.Contains(sent, key[:]) }
}

func TestReplyOfBeginLost(t *testing.T) {
	t.Parallel()
	proxy, pool := behind(t, serverURL(t))
	s, _ := openNew(t, pool)
	mustBegin(t, s) // statements are prepared
	k, c := newKey(), newClaim()
	proxy.SwallowReply(mentions(k))
	if _, err := s.Begin(t.Context(), k, c); err == nil || errors.Is(err, ibid.ErrDamaged) || proxy.Fired() != 1 {
		t.Fatalf("Begin whose reply is lost: %v, %d replies lost", err, proxy.Fired())
	}
	r, err := s.Begin(t.Context(), k, c)
	if err != nil || !r.OwnedBy(c.Token) || r.Attempt != 1 || r.Vanished != 0 {
		t.Errorf("repeated: %+v, %v, want the first attempt, its own", r, err)
	}
	if r, err := s.Begin(t.Context(), k, newClaim()); err != nil || r.State != ibid.InProgress {
		t.Errorf("someone else: %v, %v", r.State, err)
	}
}

func TestReplyOfCompleteLost(t *testing.T) {
	t.Parallel()
	proxy, pool := behind(t, serverURL(t))
	s, _ := openNew(t, pool)
	warm, w := mustBegin(t, s)
	if err := s.Complete(t.Context(), warm, w.Token, nil, keepHour); err != nil {
		t.Fatal(err)
	}
	k, c := mustBegin(t, s)
	proxy.SwallowReply(mentions(k))
	if err := s.Complete(t.Context(), k, c.Token, []byte("receipt"), keepHour); err == nil || errors.Is(err, ibid.ErrClaimLost) || proxy.Fired() != 1 {
		t.Fatalf("Complete whose reply is lost: %v, %d replies lost", err, proxy.Fired())
	}
	if err := s.Complete(t.Context(), k, c.Token, []byte("receipt"), keepHour); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if err := s.Complete(t.Context(), k, c.Token, []byte("another"), keepHour); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("with another result: %v", err)
	}
	if r, err := s.Look(t.Context(), k); err != nil || string(r.Result) != "receipt" {
		t.Errorf("recorded: %q, %v", r.Result, err)
	}
}

// A batch whose reply is lost is asked again call by call, and each finds its
// own work done.
func TestReplyOfBatchLost(t *testing.T) {
	t.Parallel()
	proxy, pool := behind(t, serverURL(t))
	table := newTable(t, pool)
	s := open(t, pool, &pgxstore.Options{Table: table, BatchFrom: 1})
	var runs sync.WaitGroup
	for round := range 5 {
		if round == 2 {
			proxy.SwallowReply(func(sent []byte) bool { return bytes.Count(sent, []byte("lost reply of a batch")) > 1 })
		}
		for range 30 {
			runs.Go(func() {
				k, c := mustBegin(t, s)
				if err := s.Complete(t.Context(), k, c.Token, []byte("lost reply of a batch"), keepHour); err != nil {
					t.Error(err)
				}
				if r, err := s.Look(t.Context(), k); err != nil || r.State != ibid.Completed || r.Attempt != 1 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		runs.Wait()
	}
	if proxy.Fired() != 1 {
		t.Errorf("%d replies lost", proxy.Fired())
	}
}

// One call of a batch waits for a lock that a transaction of the user keeps; the
// others do not.
func TestLockedRowHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	table := newTable(t, pool)
	s := open(t, pool, &pgxstore.Options{Table: table, BatchFrom: 1})
	k, c := mustBegin(t, s)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if err := s.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: c.Token, Result: []byte("x"), Keep: keepHour}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var stuck sync.WaitGroup
	stuck.Go(func() {
		if err := s.Complete(short, k, c.Token, []byte("x"), keepHour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the locked one: %v", err)
		}
	})
	for waiting := 0; waiting == 0; { // it alone, and for the lock
		if err := pool.QueryRow(short, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+table+"%' AND pid <> pg_backend_pid()").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	var others sync.WaitGroup
	for range 40 {
		others.Go(func() {
			k, c := mustBegin(t, s)
			if err := s.Complete(t.Context(), k, c.Token, []byte("y"), keepHour); err != nil {
				t.Error(err)
			}
		})
	}
	others.Wait()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the others took %v", took)
	}
	stuck.Wait()
}

// One damaged record among many is one caller's error.
func TestDamageInBatchIsOneCallersError(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	table := newTable(t, pool)
	s := open(t, pool, &pgxstore.Options{Table: table, BatchFrom: 1})
	bad, _ := mustBegin(t, s)
	if _, err := pool.Exec(t.Context(), "UPDATE "+table+" SET fence = fence + 1 WHERE key = $1", bad[:]); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if i%10 == 0 {
				if _, err := s.Begin(t.Context(), bad, newClaim()); !errors.Is(err, ibid.ErrDamaged) {
					t.Errorf("damaged: %v", err)
				}
				return
			}
			mustBegin(t, s)
		})
	}
	wg.Wait()
}

func TestEveryColumnIsChecked(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	s, table := openNew(t, pool)
	for _, change := range []string{
		"fence = fence + 1", "lease_end = lease_end - 1", "window_end = window_end + 1", "gone = gone + 1", "attempt = 7", "vanished = 1",
		"generation = 1", "version = 2", "version = 0", "state = 0", "state = 2", "token = sha256(token)", "fingerprint = sha256(fingerprint)",
		"fingerprint = ''", "scope = sha256(scope)", "label = 'x'", "steps = 'x'", "result_sum = 1", "sum = ''",
	} {
		k, c := mustBegin(t, s)
		if _, err := pool.Exec(t.Context(), "UPDATE "+table+" SET "+change+" WHERE key = $1", k[:]); err != nil {
			t.Fatal(change, err)
		}
		_, begin := s.Begin(t.Context(), k, newClaim())
		_, look := s.Look(t.Context(), k)
		for verb, err := range map[string]error{
			"Begin": begin, "Look": look,
			"Extend":   s.Extend(t.Context(), k, c.Token, time.Minute),
			"Complete": s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour),
			"Release":  s.Release(t.Context(), k, c.Token),
			"Forget":   s.Forget(t.Context(), k, c.Token, time.Hour),
		} {
			if !errors.Is(err, ibid.ErrDamaged) {
				t.Errorf("%s: %s: %v", change, verb, err)
			}
		}
	}
	k, c := mustBegin(t, s)
	if err := s.Complete(t.Context(), k, c.Token, []byte("receipt"), keepHour); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "UPDATE "+table+" SET result = 'receipT' WHERE key = $1", k[:]); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Begin(t.Context(), k, newClaim()); !errors.Is(err, ibid.ErrDamaged) {
		t.Errorf("result: %q, %v", r.Result, err)
	}
}

// Each claims for as short as it can, while others sweep all the time: no claim
// is ever swept away under its owner.
func TestSweepTakesNoLiveClaim(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t), func(c *pgxpool.Config) { c.MaxConns = 8 })
	s, _ := openNew(t, pool)
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

// The clock is read when the statement runs, not when its transaction began.
func TestClockDoesNotStandStillInTransaction(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t))
	s, _ := openNew(t, pool)
	k, c := mustBegin(t, s)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(1.2)"); err != nil {
		t.Fatal(err)
	}
	keep := ibid.Keep{Retain: time.Second} // over, if it were counted from the transaction's begin
	if err := s.CompleteTx(t.Context(), tx, ibid.Completion{Key: k, Token: c.Token, Result: []byte("x"), Keep: keep}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Look(t.Context(), k); err != nil || r.State != ibid.Completed {
		t.Errorf("%v, %v", r.State, err)
	}
}

// The engine runs nothing that the store could not decide, and loses nothing
// that ran.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := private(t)
	pool := newPool(t, server.URL)
	s, _ := openNew(t, pool)
	var runs atomic.Int64
	work := func(context.Context) ([]byte, error) { runs.Add(1); return []byte("receipt"), nil }
	e, err := ibid.New(t.Context(), s, &ibid.Options{StoreTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	done := ibid.Call{Key: ibid.Key{Scope: "shop", ID: "done"}}
	if _, _, err := e.Do(t.Context(), done, work); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for _, call := range []ibid.Call{{Key: ibid.Key{Scope: "shop", ID: "new"}}, done} {
		if _, _, err := e.Do(t.Context(), call, work); !errors.Is(err, ibid.ErrUnavailable) {
			t.Errorf("while the server is down: %v", err)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("%d runs, want that of before", runs.Load())
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	// Connections of before are dead: each costs one call an error, at most.
	for range 10 {
		if _, err = s.Look(t.Context(), newKey()); err == nil {
			break
		}
	}
	got, out, err := e.Do(t.Context(), done, work)
	if err != nil || !out.Replayed || string(got) != "receipt" {
		t.Errorf("after the crash: %q, %+v, %v", got, out, err)
	}
	// Killed between effect and record, and back before the caller gives up.
	restarted := make(chan error, 1)
	got, _, err = e.Do(t.Context(), ibid.Call{Key: ibid.Key{Scope: "shop", ID: "between"}}, func(ctx context.Context) ([]byte, error) {
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
	got, out, err = e.Do(t.Context(), ibid.Call{Key: ibid.Key{Scope: "shop", ID: "between"}}, work)
	if err != nil || !out.Replayed || string(got) != "receipt" || runs.Load() != 2 {
		t.Errorf("replayed: %q, %+v, %v, %d runs", got, out, err, runs.Load())
	}
}

// A server that stands still costs each caller its deadline, and no goroutine
// stays behind.
func TestServerPaused(t *testing.T) {
	t.Parallel()
	server := private(t)
	pool := newPool(t, server.URL)
	s, _ := openNew(t, pool)
	k, c := mustBegin(t, s)
	before := runtime.NumGoroutine()
	server.Pause()
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
	server.Continue()
	deadline := time.Now().Add(10 * time.Second)
	for err := errors.New("not asked"); err != nil; {
		if err = s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for runtime.NumGoroutine() > before+40 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+40 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	s, _ := openNew(t, pool)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	k := newKey()
	if _, err := s.Begin(ctx, k, newClaim()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	conn.Release()
	if r, err := s.Look(t.Context(), k); err != nil || r.State != ibid.Absent {
		t.Errorf("%v, %v", r.State, err)
	}
}

// A standby may lag: it is refused when the store is opened, and when the server
// becomes one.
func TestStandbyIsRefused(t *testing.T) {
	t.Parallel()
	server := private(t)
	pool := newPool(t, server.URL)
	s, table := openNew(t, pool)
	k, c := mustBegin(t, s)
	if err := s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := os.WriteFile(filepath.Join(server.Data(), "standby.signal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	pool.Reset()
	_, begin := s.Begin(t.Context(), k, newClaim())
	_, look := s.Look(t.Context(), k)
	_, list := s.List(t.Context(), ibid.Filter{}, ibid.Digest{}, 10)
	_, again := pgxstore.New(t.Context(), pool, &pgxstore.Options{Table: table})
	for what, err := range map[string]error{
		"Begin of a recorded key": begin, "Look": look, "List": list, "New": again,
		"Complete": s.Complete(t.Context(), newKey(), c.Token, nil, keepHour),
	} {
		if err == nil || !strings.Contains(err.Error(), "standby") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !errors.Is(again, ibid.ErrInvalid) {
		t.Errorf("New: %v, want ErrInvalid", again)
	}
}

// Under a stricter isolation the server undoes what raced; nobody sees that.
func TestSerializationFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		pool := newPool(t, serverURL(t), func(c *pgxpool.Config) {
			c.MaxConns = 10
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
		})
		table := newTable(t, pool)
		s := open(t, pool, &pgxstore.Options{Table: table, BatchFrom: -1})
		for range 20 {
			k := newKey()
			var owners atomic.Int64
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					c := newClaim()
					r, err := s.Begin(t.Context(), k, c)
					if err != nil {
						t.Errorf("%s: %v", level, err)
					} else if r.OwnedBy(c.Token) {
						owners.Add(1)
					}
				})
			}
			wg.Wait()
			if owners.Load() != 1 {
				t.Errorf("%s: %d owners", level, owners.Load())
			}
		}
	}
}

// A commit that was cancelled while it waited for a standby is no success, and
// does not become one by being repeated.
func TestUnreplicatedCompletionIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	server := private(t)
	pool := newPool(t, server.URL)
	s, _ := openNew(t, pool)
	k, c := mustBegin(t, s)
	set := func(names string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			conn := connect(t, server.URL)
			var now string
			if err := conn.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&now); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close(t.Context())
			if now == names {
				return
			}
		}
		t.Fatal("the setting does not take")
	}
	set("nobody")
	pool.Reset()
	for i := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := s.Complete(ctx, k, c.Token, []byte("x"), keepHour)
		cancel()
		if err == nil || errors.Is(err, ibid.ErrClaimLost) {
			t.Errorf("call %d, no standby: %v", i+1, err)
		}
	}
	set("")
	pool.Reset()
	if err := s.Complete(t.Context(), k, c.Token, []byte("x"), keepHour); err != nil {
		t.Errorf("without the requirement: %v", err)
	}
}
