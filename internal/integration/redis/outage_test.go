package redis_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
)

func newEngine(t *testing.T, s ibid.Store, o *ibid.Options) *ibid.Engine {
	t.Helper()
	e, err := ibid.New(limit(t, 10*time.Second), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func call(id string) ibid.Call { return ibid.Call{Key: ibid.Key{Scope: "s", ID: id}} }

// The faults of a server that is out of reach, and how it comes back.
var outages = []struct {
	name  string
	begin func(*redistest.Server)
	end   func(*redistest.Server)
}{
	{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart},
	{"standing still", (*redistest.Server).Stop, (*redistest.Server).Continue},
}

// A server that keeps everything, so that what is lost is the store's fault.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestOutageFailsClosed(t *testing.T) {
	each(t, durable, func(t *testing.T, lib library, server *redistest.Server) {
		engine := newEngine(t, lib.open(t, "", server.Addr), &ibid.Options{StoreTimeout: 300 * time.Millisecond})
		runs := 0
		work := func(context.Context) ([]byte, error) {
			runs++
			return []byte("receipt"), nil
		}
		if _, _, err := engine.Do(t.Context(), call("kept"), work); err != nil {
			t.Fatal(err)
		}
		for _, o := range outages {
			o.begin(server)
			for _, row := range []struct{ name, id string }{
				{"a new key", "new while " + o.name},
				{"a replay", "kept"},
			} {
				began := time.Now()
				_, _, err := engine.Do(t.Context(), call(row.id), work)
				if !errors.Is(err, ibid.ErrUnavailable) {
					t.Errorf("%s, server %s: %v, want ErrUnavailable", row.name, o.name, err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("%s, server %s: took %v", row.name, o.name, took)
				}
			}
			if runs != 1 {
				t.Errorf("server %s: the work ran %d times, want 1", o.name, runs)
			}
			o.end(server)
			eventually(t, "a replay", func() bool {
				data, out, err := engine.Do(t.Context(), call("kept"), work)
				return err == nil && string(data) == "receipt" && out.Replayed
			})
		}
	})
}

// The work is done when the server goes away: its result is recorded once the
// server is back, within the time that a caller waits, and nothing runs again.
func TestOutageBetweenEffectAndComplete(t *testing.T) {
	each(t, durable, func(t *testing.T, lib library, server *redistest.Server) {
		engine := newEngine(t, lib.open(t, "", server.Addr), &ibid.Options{
			StoreTimeout: 300 * time.Millisecond,
			Policy:       ibid.Policy{Lease: 200 * time.Millisecond, Takeover: ibid.Refuse},
		})
		for _, o := range outages {
			runs := 0
			data, _, err := engine.Do(t.Context(), call(o.name), func(context.Context) ([]byte, error) {
				runs++
				o.begin(server)
				back := time.AfterFunc(700*time.Millisecond, func() { o.end(server) }) // past the lease
				t.Cleanup(func() { back.Stop() })
				return []byte("receipt"), nil
			})
			if err != nil || string(data) != "receipt" {
				t.Errorf("server %s: %q, %v", o.name, data, err)
			}
			data, out, err := engine.Do(t.Context(), call(o.name), func(context.Context) ([]byte, error) {
				runs++
				return nil, nil
			})
			if err != nil || string(data) != "receipt" || !out.Replayed || runs != 1 {
				t.Errorf("server %s: %q, %+v, %v after %d runs", o.name, data, out, err, runs)
			}
		}
	})
}

// Callers of a server that stands still are answered in time, and leave no
// goroutine behind.
func TestStandstillBoundsWaits(t *testing.T) {
	for _, lib := range libraries { // one after the other, and alone: goroutines are counted
		t.Run(lib.name, func(t *testing.T) {
			server := redistest.Start(t)
			engine := newEngine(t, lib.open(t, "", server.Addr), &ibid.Options{StoreTimeout: 200 * time.Millisecond})
			work := func(context.Context) ([]byte, error) { return nil, nil }
			storm := func() {
				var callers sync.WaitGroup
				for range 200 {
					callers.Go(func() {
						engine.Do(t.Context(), call(ibid.NewToken().String()), work)
					})
				}
				callers.Wait()
			}
			storm()
			before := runtime.NumGoroutine()
			server.Stop()
			began := time.Now()
			storm()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("200 callers waited %v", took)
			}
			server.Continue()
			eventually(t, "an answer", func() bool {
				_, _, err := engine.Do(t.Context(), call("after"), work)
				return err == nil
			})
			eventually(t, "as few goroutines as before", func() bool { return runtime.NumGoroutine() <= before+20 })
		})
	}
}

// eventually fails the test unless ok comes true within ten seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within ten seconds", what)
		}
	}
}
