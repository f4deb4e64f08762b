package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/redisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Both libraries, with their own repetition of commands off and on.
var repeating = []struct {
	library
	repeats bool // sends a command again whose reply was lost
}{
	{libraries[0], false},
	{library{"rueidis with retries", func(t testing.TB, prefix string, addrs ...string) *redisstore.Store {
		return openRueidis(t, prefix, rueidis.ClientOption{InitAddress: addrs})
	}}, false}, // it repeats reads only
	{libraries[1], false},
	{library{"go-redis with retries", func(t testing.TB, prefix string, addrs ...string) *redisstore.Store {
		return openGoRedis(t, prefix, &redis.UniversalOptions{Addrs: addrs, MaxRetries: 3})
	}}, true},
}

func eachRepeating(t *testing.T, test func(t *testing.T, s *redisstore.Store, server *redistest.Server, proxy *redistest.Proxy, repeats bool)) {
	t.Parallel()
	for _, lib := range repeating {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.Between(t, server)
			s := lib.open(t, "", proxy.Addr)
			// The first reply that is lost is not that of the first command.
			k, c := newKey(), newClaim()
			mustOwn(t, s, k, c)
			complete(t, s, k, c, "warm")
			test(t, s, server, proxy, lib.repeats)
		})
	}
}

func fired(t *testing.T, lost <-chan struct{}) {
	t.Helper()
	select {
	case <-lost:
	case <-time.After(5 * time.Second):
		t.Fatal("no reply was lost")
	}
}

func TestLostReplyOfBegin(t *testing.T) {
	eachRepeating(t, func(t *testing.T, s *redisstore.Store, server *redistest.Server, proxy *redistest.Proxy, repeats bool) {
		k, c := newKey(), newClaim()
		lost := proxy.LoseReply("$3\r\nSET\r\n")
		r, err := s.Begin(limit(t, 5*time.Second), k, c)
		fired(t, lost)
		if (err == nil) != repeats {
			t.Errorf("Begin whose reply was lost: %v; the library repeats: %v", err, repeats)
		}
		if repeats && !r.OwnedBy(c.Token) {
			t.Errorf("the repeated command does not know its own claim: %+v", r)
		}
		if server.Do("EXISTS", rawKey("ibid:", k)) != "1" {
			t.Fatal("the claim was not applied: the fault did not happen")
		}
		r = mustOwn(t, s, k, c)
		if r.Attempt != 1 || r.Vanished != 0 {
			t.Errorf("a repeated claim is attempt %d after %d that vanished, want 1 and 0", r.Attempt, r.Vanished)
		}
		if r := begin(t, s, k, newTaker()); r.State != ibid.InProgress {
			t.Errorf("another caller sees %v", r.State)
		}
		complete(t, s, k, c, "done")
	})
}

func TestLostReplyOfComplete(t *testing.T) {
	eachRepeating(t, func(t *testing.T, s *redisstore.Store, server *redistest.Server, proxy *redistest.Proxy, repeats bool) {
		k, c := newKey(), newClaim()
		mustOwn(t, s, k, c)
		lost := proxy.LoseReply("EVALSHA")
		err := s.Complete(limit(t, 5*time.Second), k, c.Token, []byte("done"), ibid.Keep{Retain: long})
		fired(t, lost)
		if (err == nil) != repeats {
			t.Errorf("Complete whose reply was lost: %v; the library repeats: %v", err, repeats)
		}
		if errors.Is(err, ibid.ErrClaimLost) {
			t.Error("a lost reply was taken for a lost claim")
		}
		if r, err := s.Look(limit(t, 5*time.Second), k); err != nil || string(r.Result) != "done" {
			t.Fatalf("the result was not applied: the fault did not happen: %+v, %v", r, err)
		}
		complete(t, s, k, c, "done")
		if err := s.Complete(t.Context(), k, c.Token, []byte("other"), ibid.Keep{Retain: long}); !errors.Is(err, ibid.ErrClaimLost) {
			t.Errorf("another result: %v, want ErrClaimLost", err)
		}
	})
}

// A claim and its result, told to be lost by their replies, run the work once.
func TestEngineOverLostReplies(t *testing.T) {
	eachRepeating(t, func(t *testing.T, s *redisstore.Store, _ *redistest.Server, proxy *redistest.Proxy, _ bool) {
		engine, err := ibid.New(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		lost := proxy.LoseReply("EVALSHA")
		data, _, err := engine.Do(t.Context(), ibid.Call{Key: ibid.Key{Scope: "s", ID: "k"}}, func(ctx context.Context) ([]byte, error) {
			runs++
			return []byte("receipt"), nil
		})
		fired(t, lost)
		if err != nil || string(data) != "receipt" {
			t.Fatalf("%q, %v", data, err)
		}
		data, out, err := engine.Do(t.Context(), ibid.Call{Key: ibid.Key{Scope: "s", ID: "k"}}, func(ctx context.Context) ([]byte, error) {
			runs++
			return []byte("second"), nil
		})
		if err != nil || string(data) != "receipt" || !out.Replayed || runs != 1 {
			t.Errorf("%q, %+v, %v after %d runs", data, out, err, runs)
		}
	})
}

func TestScriptsAreSentAgain(t *testing.T) {
	each(t, nil, func(t *testing.T, lib library, server *redistest.Server) {
		s := lib.open(t, "", server.Addr)
		k, c := newKey(), newClaim()
		mustOwn(t, s, k, c)
		if _, err := s.Look(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		server.Do("SCRIPT", "FLUSH")
		complete(t, s, k, c, "done")
		if r, err := s.Look(t.Context(), k); err != nil || string(r.Result) != "done" {
			t.Fatalf("%+v, %v", r, err)
		}
		if n := server.Observer()().Calls["eval"]; n < 2 {
			t.Errorf("%d scripts were sent whole, want those that were forgotten", n)
		}
	})
}
