// Package memstore keeps records in the memory of one process.
//
// It is the store for tests, for demonstrations, and for work whose duplicates
// all reach the same process. It is also the contract in its plainest form: the
// verbs are those of the project's sequential specification, under a lock.
//
//	engine, err := ibid.New(ctx, memstore.New(nil), nil)
//
// # Guarantees
//
// All of ibid.Store, and the abilities Notifier, Sweeper, Inspector,
// Checkpointer and Describer. A store is bounded: one that is full refuses new
// keys with ibid.ErrFull and evicts nothing, because an evicted record is work
// that runs twice. Replays, and every verb of keys it already holds, go on.
//
// Time is monotonic: the wall clock is read once, at first use, and a step of
// it afterwards changes no lease and no window. On a machine that sleeps,
// leases and windows sleep too, where the system's monotonic clock does.
//
// # What it does not do
//
// Nothing survives the process, and two processes share nothing: behind a load
// balancer each of them would run the work once. ibid.Options.Require refuses
// this store whatever it requires.
//
// No goroutine runs. Records that are over are dropped by later claims, a few
// at a time, and by Sweep. The index does not shrink below its largest size
// until a shard has become empty.
package memstore
