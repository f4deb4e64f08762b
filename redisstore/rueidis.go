package redisstore

import (
	"context"
	"time"

	"github.com/ibid-go/ibid/redisstore/internal/protocol"
	"github.com/redis/rueidis"
)

// conn is a rueidis.Client as the protocol asks it. Every key goes with a command
// that the library takes for a write: it neither repeats those nor sends them to
// a replica.
type conn struct{ client rueidis.Client }

func (c conn) SetNew(ctx context.Context, key, value string, ms int64) ([]byte, bool, error) {
	m, err := c.client.Do(ctx, c.client.B().Set().Key(key).Value(value).Nx().Get().PxMilliseconds(ms).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	old, err := m.AsBytes()
	return old, true, err
}

func (c conn) Run(ctx context.Context, s *protocol.Script, text bool, key string, args []string) ([]byte, *protocol.Shown, error) {
	cmd := c.client.B().Evalsha().Sha1(s.SHA1).Numkeys(1).Key(key).Arg(args...).Build()
	if text {
		cmd = c.client.B().Eval().Script(s.Text).Numkeys(1).Key(key).Arg(args...).Build()
	}
	m, err := c.client.Do(ctx, cmd).ToMessage()
	if err != nil {
		return nil, nil, err
	}
	if m.IsInt64() {
		return nil, nil, nil
	}
	if !m.IsArray() {
		old, err := m.AsBytes()
		return old, nil, err
	}
	list, err := m.ToArray()
	if err != nil || len(list) < 4 {
		return nil, new(protocol.Shown), err
	}
	var shown protocol.Shown
	for i, n := range [...]*int64{&shown.Left, &shown.Seconds, &shown.Micros} {
		if *n, err = list[i].AsInt64(); err != nil {
			return nil, nil, err
		}
	}
	old, err := list[3].AsBytes()
	return old, &shown, err
}

func (c conn) Time(ctx context.Context) (int64, error) {
	parts, err := c.client.Do(ctx, c.client.B().Time().Build()).AsStrSlice()
	if err != nil {
		return 0, err
	}
	return protocol.Micros(parts)
}

func (c conn) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			ready()
		}
	})
	// A subscription outlives its context unless it is ended.
	ctx = rueidis.WithOnReceiveReturnHook(ctx, func(err error, client rueidis.CommandClient) error {
		if ctx.Err() != nil {
			limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			client.Do(limit, client.B().Unsubscribe().Channel(channel).Build())
		}
		return err
	})
	return c.client.Receive(ctx, c.client.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
		message(m.Message)
	})
}

func (c conn) Primaries(ctx context.Context) ([]protocol.Node, error) {
	if c.client.Mode() != rueidis.ClientModeCluster {
		return []protocol.Node{node(c)}, nil
	}
	var nodes []protocol.Node
	for _, client := range c.client.Nodes() {
		role, err := client.Do(ctx, client.B().Role().Build()).ToArray()
		if err != nil {
			return nil, err
		}
		if len(role) > 0 {
			if is, _ := role[0].ToString(); is == "master" {
				nodes = append(nodes, node{client})
			}
		}
	}
	return nodes, nil
}

// node is one server.
type node struct{ client rueidis.Client }

func (n node) Scan(ctx context.Context, cursor uint64, pattern string, count int) ([]string, uint64, error) {
	e, err := n.client.Do(ctx, n.client.B().Scan().Cursor(cursor).Match(pattern).Count(int64(count)).Build()).AsScanEntry()
	return e.Elements, e.Cursor, err
}

func (n node) Info(ctx context.Context) (string, error) {
	return n.client.Do(ctx, n.client.B().Info().Build()).ToString()
}

func (n node) Config(ctx context.Context, names ...string) (map[string]string, error) {
	return n.client.Do(ctx, n.client.B().ConfigGet().Parameter(names...).Build()).AsStrMap()
}
