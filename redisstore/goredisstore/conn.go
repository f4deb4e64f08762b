package goredisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/ibid-go/ibid/redisstore/internal/protocol"
	"github.com/redis/go-redis/v9"
)

// conn is a Client as the protocol asks it.
type conn struct{ client Client }

func (c conn) SetNew(ctx context.Context, key, value string, ms int64) ([]byte, bool, error) {
	old, err := c.client.Do(ctx, "set", key, value, "nx", "get", "px", ms).Text()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return []byte(old), err == nil, err
}

func (c conn) Run(ctx context.Context, s *protocol.Script, text bool, key string, args []string) ([]byte, *protocol.Shown, error) {
	words := make([]any, 0, 4+len(args))
	if text {
		words = append(words, "eval", s.Text, 1, key)
	} else {
		words = append(words, "evalsha", &s.SHA1, 1, key)
	}
	for i := range args {
		words = append(words, &args[i]) // a string would be copied
	}
	answer, err := c.client.Do(ctx, words...).Result()
	if err != nil {
		return nil, nil, err
	}
	switch answer := answer.(type) {
	case int64:
		return nil, nil, nil
	case string:
		return []byte(answer), nil, nil
	}
	list, _ := answer.([]any)
	if len(list) < 4 {
		return nil, new(protocol.Shown), nil
	}
	left, _ := list[0].(int64)
	seconds, _ := list[1].(string)
	micros, _ := list[2].(string)
	old, _ := list[3].(string)
	now, err := protocol.Micros([]string{seconds, micros})
	return []byte(old), &protocol.Shown{Left: left, Micros: now}, err
}

func (c conn) Time(ctx context.Context) (int64, error) {
	parts, err := c.client.Do(ctx, "time").StringSlice()
	if err != nil {
		return 0, err
	}
	return protocol.Micros(parts)
}

func (c conn) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	sub := c.client.Subscribe(ctx, channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })() // Receive waits on beyond ctx
	for {
		m, err := sub.Receive(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *redis.Subscription:
			ready()
		case *redis.Message:
			message(m.Payload)
		}
	}
}

func (c conn) Primaries(ctx context.Context) ([]protocol.Node, error) {
	cluster, ok := c.client.(interface {
		ForEachMaster(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	})
	if !ok {
		return []protocol.Node{node(c)}, nil
	}
	var mu sync.Mutex
	var nodes []protocol.Node
	err := cluster.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node{client})
		return nil
	})
	return nodes, err
}

// node is one server.
type node struct{ client Client }

func (n node) Scan(ctx context.Context, cursor uint64, pattern string, count int) ([]string, uint64, error) {
	cmd := redis.NewScanCmd(ctx, nil, "scan", cursor, "match", pattern, "count", count)
	_ = n.client.Process(ctx, cmd) // the command carries its error
	return cmd.Result()
}

func (n node) Info(ctx context.Context) (string, error) {
	return n.client.Do(ctx, "info").Text()
}

func (n node) Config(ctx context.Context, names ...string) (map[string]string, error) {
	words := []any{"config", "get"}
	for _, name := range names {
		words = append(words, name)
	}
	cmd := redis.NewMapStringStringCmd(ctx, words...)
	_ = n.client.Process(ctx, cmd)
	return cmd.Result()
}
