package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/redisstore"
)

func watch(t *testing.T, s *redisstore.Store, k ibid.Digest) <-chan struct{} {
	t.Helper()
	changed, stop, err := s.Watch(limit(t, 5*time.Second), k)
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	t.Cleanup(stop)
	return changed
}

func woken(t *testing.T, changed <-chan struct{}, when string) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(5 * time.Second):
		t.Errorf("%s: nobody was woken", when)
	}
}

// Who waits in one process is woken by what another does.
func TestWakesAcrossProcesses(t *testing.T) {
	each(t, nil, func(t *testing.T, lib library, server *redistest.Server) {
		owner, waiter := lib.open(t, "", server.Addr), lib.open(t, "", server.Addr)
		for _, row := range []struct {
			name string
			end  func(k ibid.Digest, c ibid.Claim) error
		}{
			{"completed", func(k ibid.Digest, c ibid.Claim) error {
				return owner.Complete(t.Context(), k, c.Token, nil, ibid.Keep{Retain: long})
			}},
			{"released", func(k ibid.Digest, c ibid.Claim) error { return owner.Release(t.Context(), k, c.Token) }},
			{"given up", func(k ibid.Digest, c ibid.Claim) error { return owner.Extend(t.Context(), k, c.Token, 0) }},
			{"forgotten", func(k ibid.Digest, c ibid.Claim) error { return owner.Forget(t.Context(), k, c.Token, long) }},
		} {
			k, c := newKey(), newClaim()
			mustOwn(t, owner, k, c)
			first, second := watch(t, waiter, k), watch(t, waiter, k)
			select {
			case <-first:
				t.Errorf("%s: woken before", row.name)
			case <-time.After(20 * time.Millisecond):
			}
			if err := row.end(k, c); err != nil {
				t.Fatal(err)
			}
			woken(t, first, row.name)
			woken(t, second, row.name+", the second to wait")
		}
		// A takeover keeps those who wait.
		k, c := newKey(), newClaim()
		mustOwn(t, owner, k, c)
		if err := owner.Extend(t.Context(), k, c.Token, 0); err != nil {
			t.Fatal(err)
		}
		changed := watch(t, waiter, k)
		taker := newTaker()
		mustOwn(t, owner, k, taker)
		complete(t, owner, k, taker, "done")
		woken(t, changed, "completed after a takeover")

		subscribers := server.Do("PUBSUB", "NUMSUB", "ibid:wake")
		if !strings.HasSuffix(subscribers, "1") {
			t.Errorf("subscribers: %q, want one connection of the process that waits", subscribers)
		}
	})
}

// A claim that nobody waits for publishes nothing.
func TestUnwaitedClaimsPublishNothing(t *testing.T) {
	each(t, nil, func(t *testing.T, lib library, server *redistest.Server) {
		s := lib.open(t, "", server.Addr)
		counts := server.Observer()
		finish := func(wait bool) {
			k, c := newKey(), newClaim()
			mustOwn(t, s, k, c)
			if wait {
				watch(t, s, k)
			}
			complete(t, s, k, c, "done")
		}
		for range 20 {
			finish(false)
		}
		if n := counts().Calls["publish"]; n != 0 {
			t.Errorf("%d messages, want none", n)
		}
		finish(true)
		if n := counts().Calls["publish"]; n != 1 {
			t.Errorf("%d messages, want one", n)
		}
	})
}

// A subscription that breaks wakes everybody, and comes back with the server.
func TestSubscriptionComesBack(t *testing.T) {
	each(t, durable, func(t *testing.T, lib library, server *redistest.Server) {
		s := lib.open(t, "", server.Addr)
		k, c := newKey(), newClaim()
		mustOwn(t, s, k, c)
		changed := watch(t, s, k)
		server.Kill()
		woken(t, changed, "server killed")
		began := time.Now()
		if _, _, err := s.Watch(t.Context(), k); err == nil {
			t.Error("Watch of a dead server: no error")
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Watch of a dead server took %v", took)
		}
		server.Restart()
		eventually(t, "subscription", func() bool {
			var stop func()
			var err error
			changed, stop, err = s.Watch(t.Context(), k)
			if err == nil {
				t.Cleanup(stop)
			}
			return err == nil
		})
		complete(t, s, k, c, "done")
		woken(t, changed, "completed after the restart")
	})
}

func TestCloseEndsTheSubscription(t *testing.T) {
	each(t, nil, func(t *testing.T, lib library, server *redistest.Server) {
		s := lib.open(t, "", server.Addr)
		k, c := newKey(), newClaim()
		mustOwn(t, s, k, c)
		changed := watch(t, s, k)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		woken(t, changed, "closed")
		eventually(t, "end of the subscription", func() bool {
			return strings.HasSuffix(server.Do("PUBSUB", "NUMSUB", "ibid:wake"), "0")
		})
		if _, _, err := s.Watch(t.Context(), k); err == nil {
			t.Error("Watch of a closed store: no error")
		}
		complete(t, s, k, c, "done") // the rest goes on
		if err := s.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	})
}
