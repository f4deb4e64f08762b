package goredisstore

import (
	"context"
	"fmt"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/redisstore/internal/protocol"
	"github.com/redis/go-redis/v9"
)

// Client is what the store needs of a client. *redis.Client and
// *redis.ClusterClient have it, as has every redis.UniversalClient, which keeps
// growing.
type Client interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
	Process(ctx context.Context, cmd redis.Cmder) error
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Options of a Store: see redisstore.Options.
type Options = protocol.Options

// Store is an ibid.Store on a Redis or Valkey server: see redisstore.Store.
type Store = protocol.Store

// New returns a store on client. It asks the server nothing.
//
// ErrInvalid reports a client that the contract of ibid.Store cannot be kept
// with: one that reads from replicas (ReadOnly, RouteByLatency, RouteRandomly),
// that shares keys out itself (*redis.Ring), or that waits on beyond its
// context (ContextTimeoutEnabled is not set). MaxRetries may have any value: a
// command that the server has already run, sent again, finds its own token and
// changes nothing. -1 is recommended all the same, since the engine repeats what
// is worth it.
func New(client Client, opts *Options) (*Store, error) {
	if err := check(client); err != nil {
		return nil, err
	}
	return protocol.New(conn{client}, opts)
}

func check(client Client) error {
	obeys := true
	switch c := client.(type) {
	case nil:
		return fmt.Errorf("%w: client is nil", ibid.ErrInvalid)
	case *redis.Client:
		obeys = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		o := c.Options()
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return fmt.Errorf("%w: client reads from replicas, which may lag: set ReadOnly, RouteByLatency and RouteRandomly to false", ibid.ErrInvalid)
		}
		obeys = o.ContextTimeoutEnabled
	case *redis.Ring:
		return fmt.Errorf("%w: a redis.Ring moves keys when its servers change, and forgets them by that: use a cluster", ibid.ErrInvalid)
	}
	if !obeys {
		return fmt.Errorf("%w: client does not obey deadlines: set ContextTimeoutEnabled", ibid.ErrInvalid)
	}
	return nil
}
