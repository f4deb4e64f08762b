// Package redisstore keeps records on a Redis or Valkey server, version 7.0 or
// later: one server, Sentinel, or a cluster. It uses the client library rueidis,
// which sends the commands of concurrent callers together. Package
// goredisstore, a module of its own, is the same store on go-redis; the two
// read each other's records.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
//	…
//	store, err := redisstore.New(client, nil)
//	…
//	defer store.Close()
//	engine, err := ibid.New(ctx, store, nil)
//
// # Guarantees
//
// All of ibid.Store, as long as the server keeps what it acknowledged. What its
// settings can keep, Describe reads from the server:
//
//	maxmemory-policy other than noeviction   nothing
//	appendonly no                            process kill
//	appendonly yes, appendfsync everysec     process kill
//	appendonly yes, appendfsync no           process kill, server kill
//	appendonly yes, appendfsync always       process kill, server kill, power loss
//
// A failover is never survived: replication is asynchronous, and a promoted
// replica may not have the last records, so that their work runs again. Across
// failovers the class is best effort; what must not run twice then needs a SQL
// store that decides, or a guard.
//
// A first run costs two commands, a replay one, a conflict two at most, and each
// is one round trip. On top of that comes one TIME in a minute, three at most
// when the process starts.
//
// A record is one string under the prefix and, in braces, the 32 bytes of the
// key's digest. Only the server's clock judges leases and windows. The key's
// expiry ends the window; the lease is told from it by a number in the record.
// Somebody who sets the server's clock forward shortens leases and windows, and
// ends those that are shorter than the step; nobody who was taken over can
// record a result even then.
//
// All commands go to the server that decides: a replica refuses them.
//
// A server at its maxmemory accepts no new key (ibid.ErrFull). Results, and
// every verb of keys it holds, go on being accepted beyond it, and replays are
// served, with two commands each.
//
// # What it does not do
//
// It does not sweep; the server does. It runs no goroutine until Watch is
// called. It does not wait for replicas (WAIT): a record that a replica has
// acknowledged may still be lost with a failover that picks another one.
//
// The fence that begins a window is taken from an estimate of the server's
// clock. It grows across windows as long as nobody sets that clock back, the clocks
// of a cluster's servers differ by less than a window, and Begin takes less than
// one.
//
// Where somebody set the server's clock forward, a result whose key is
// remembered may be replayed for up to a minute after its end.
//
// List reads the names of all keys for each page. It is for operators.
package redisstore
