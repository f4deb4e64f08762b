package redis_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/redisstore"
	"github.com/ibid-go/ibid/redisstore/goredisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

var (
	_ ibid.Store        = (*redisstore.Store)(nil)
	_ ibid.Notifier     = (*redisstore.Store)(nil)
	_ ibid.Inspector    = (*redisstore.Store)(nil)
	_ ibid.Checkpointer = (*redisstore.Store)(nil)
	_ ibid.Describer    = (*redisstore.Store)(nil)
)

// library is one way to reach a server.
type library struct {
	name string
	open func(t testing.TB, prefix string, addrs ...string) *redisstore.Store
}

var libraries = []library{
	{"rueidis", func(t testing.TB, prefix string, addrs ...string) *redisstore.Store {
		return openRueidis(t, prefix, rueidis.ClientOption{InitAddress: addrs, DisableRetry: true})
	}},
	{"go-redis", func(t testing.TB, prefix string, addrs ...string) *redisstore.Store {
		return openGoRedis(t, prefix, &redis.UniversalOptions{Addrs: addrs, MaxRetries: -1})
	}},
}

func openRueidis(t testing.TB, prefix string, o rueidis.ClientOption) *redisstore.Store {
	t.Helper()
	o.DisableCache = true
	o.Dialer = net.Dialer{Timeout: time.Second}
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.New(client, &redisstore.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		client.Close()
	})
	return s
}

func openGoRedis(t testing.TB, prefix string, o *redis.UniversalOptions) *redisstore.Store {
	t.Helper()
	o.ContextTimeoutEnabled = true
	o.DialTimeout = time.Second
	client := redis.NewUniversalClient(o)
	s, err := goredisstore.New(client, &goredisstore.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		client.Close()
	})
	return s
}

// each runs a test with every library, against a server of its own.
func each(t *testing.T, args []string, test func(t *testing.T, lib library, server *redistest.Server)) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			test(t, lib, redistest.Start(t, args...))
		})
	}
}

func limit(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

const long = 24 * time.Hour

func newClaim() ibid.Claim {
	return ibid.Claim{
		Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint{0xf1}, Scope: ibid.Digest{0x5c},
		Lease: long, Window: long,
	}
}

func newTaker() ibid.Claim {
	c := newClaim()
	c.MaxTakeovers = -1
	return c
}

func newKey() (k ibid.Digest) {
	a, b := ibid.NewToken(), ibid.NewToken()
	copy(k[:], a[:])
	copy(k[16:], b[:])
	return k
}

// rawKey is the name that a key has on the server.
func rawKey(prefix string, key ibid.Digest) string { return prefix + "{" + string(key[:]) + "}" }

func begin(t testing.TB, s ibid.Store, k ibid.Digest, c ibid.Claim) ibid.Record {
	t.Helper()
	r, err := s.Begin(limit(t, 10*time.Second), k, c)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return r
}

func mustOwn(t testing.TB, s ibid.Store, k ibid.Digest, c ibid.Claim) ibid.Record {
	t.Helper()
	r := begin(t, s, k, c)
	if !r.OwnedBy(c.Token) {
		t.Fatalf("Begin was not granted the key: %+v", r)
	}
	return r
}

func complete(t testing.TB, s ibid.Store, k ibid.Digest, c ibid.Claim, result string) {
	t.Helper()
	if err := s.Complete(limit(t, 10*time.Second), k, c.Token, []byte(result), ibid.Keep{Retain: long}); err != nil {
		t.Fatalf("Complete: %v", err)
	}
}
