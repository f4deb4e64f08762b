// Package goredisstore is package redisstore on the client library go-redis, for
// those who have a redis.UniversalClient already. It keeps the same records and
// makes the same promises. It is a module of its own, so that neither library
// is linked, or updated, for the sake of the other.
//
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
//	store, err := goredisstore.New(client, nil)
//	…
//	defer store.Close()
//	engine, err := ibid.New(ctx, store, nil)
package goredisstore
