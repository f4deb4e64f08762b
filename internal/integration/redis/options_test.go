package redis_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/redisstore"
	"github.com/ibid-go/ibid/redisstore/goredisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

func TestUnsafeClientsAreRefused(t *testing.T) {
	t.Parallel()
	const addr = "127.0.0.1:1" // nobody is asked
	rows := []struct {
		name, why string
		client    goredisstore.Client
		says      string // "" is accepted
	}{
		{"a plain client", "", redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}), ""},
		{"a client that repeats", "a repeated command finds its own token", redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 5, ContextTimeoutEnabled: true}), ""},
		{"a client of Sentinel", "", redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{addr}, ContextTimeoutEnabled: true}), ""},
		{"a cluster", "", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ContextTimeoutEnabled: true}), ""},
		{"a client deaf to deadlines", "a caller would wait beyond its own", redis.NewClient(&redis.Options{Addr: addr}), "ContextTimeoutEnabled"},
		{"a cluster deaf to deadlines", "a caller would wait beyond its own", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}), "ContextTimeoutEnabled"},
		{"reads from replicas", "a stale miss would run the work again", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ReadOnly: true, ContextTimeoutEnabled: true}), "ReadOnly"},
		{"reads from the nearest", "a stale miss would run the work again", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, RouteByLatency: true, ContextTimeoutEnabled: true}), "RouteByLatency"},
		{"reads from anywhere", "a stale miss would run the work again", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, RouteRandomly: true, ContextTimeoutEnabled: true}), "RouteRandomly"},
		{"a ring", "a key whose server changes is forgotten", redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}, ContextTimeoutEnabled: true}), "Ring"},
		{"none", "it would panic at the first call", nil, "nil"},
	}
	for _, row := range rows {
		_, err := goredisstore.New(row.client, nil)
		if c, ok := row.client.(io.Closer); ok {
			c.Close()
		}
		if (err == nil) != (row.says == "") || err != nil && (!errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), row.says)) {
			t.Errorf("%s (%s): %v", row.name, row.why, err)
		}
	}
	if _, err := redisstore.New(nil, nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("rueidis, none: %v", err)
	}
}

func TestPrefix(t *testing.T) {
	each(t, nil, func(t *testing.T, lib library, server *redistest.Server) {
		odd := lib.open(t, `a*[b]?\c:`, server.Addr)
		other := lib.open(t, "a-b-c:", server.Addr)
		k := newKey()
		mustOwn(t, odd, k, newClaim())
		mustOwn(t, other, k, newClaim())
		for _, s := range []*redisstore.Store{odd, other} {
			if page, err := s.List(t.Context(), ibid.Filter{}, ibid.Digest{}, 10); err != nil || len(page) != 1 {
				t.Errorf("%d records listed, %v, want its own one", len(page), err)
			}
		}
	})
	if _, err := redisstore.New(neverAsked(t), &redisstore.Options{Prefix: "a{b}:"}); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("a prefix with braces: %v, want ErrInvalid", err)
	}
}

func neverAsked(t *testing.T) rueidis.Client {
	server := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// A client that sends everything it may to a replica gets the server's refusal,
// and no answer that could be stale.
func TestReadsSentToReplica(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr, ":")
	replica.Do("REPLICAOF", host, port)
	eventually(t, "replication", func() bool { return replica.Info("replication", "master_link_status") == "up" })
	k, c := newKey(), newClaim()
	s := libraries[0].open(t, "", primary.Addr)
	mustOwn(t, s, k, c)
	eventually(t, "replicated claim", func() bool { return replica.Do("EXISTS", rawKey("ibid:", k)) == "1" })
	replica.Stop() // from here on it lags
	complete(t, s, k, c, "done")
	replica.Continue()

	routed := openRueidis(t, "", rueidis.ClientOption{
		InitAddress:    []string{primary.Addr},
		Standalone:     rueidis.StandaloneOption{ReplicaAddress: []string{replica.Addr}},
		SendToReplicas: func(rueidis.Completed) bool { return true },
	})
	refuse(t, routed, k, c)

	reading := openRueidis(t, "", rueidis.ClientOption{
		InitAddress:    []string{primary.Addr},
		Standalone:     rueidis.StandaloneOption{ReplicaAddress: []string{replica.Addr}},
		SendToReplicas: func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() },
	})
	if r, err := reading.Look(limit(t, time.Second), k); err != nil || string(r.Result) != "done" {
		t.Errorf("a client that sends reads to replicas: %+v, %v", r, err)
	}
	if r := begin(t, reading, k, newClaim()); string(r.Result) != "done" {
		t.Errorf("a client that sends reads to replicas: %+v", r)
	}
}
