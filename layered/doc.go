// Package layered puts copies of completed records in front of the store that
// decides: in this process's memory, and in a store that several processes
// share, such as Redis in front of PostgreSQL. Retries are then answered
// without asking the store that decides, or from where asking is cheap.
//
//	decides, err := pgxstore.New(ctx, pool, nil)
//	…
//	front, err := redisstore.New(client, nil)
//	…
//	store := layered.New(decides, &layered.Options{Front: front})
//	engine, err := ibid.New(ctx, store, &ibid.Options{Require: ibid.PowerLoss})
//
// # Guarantees
//
//   - Every claim, renewal, completion and release is decided by the store that
//     decides, and so is everything but the replay of a completed record. What
//     the store survives is what that one survives: ibid.As finds its Describer,
//     and all its other abilities.
//   - A copy is made of what the store that decides was seen to hold, and of
//     nothing else: no caller gets a result that it has not acknowledged.
//   - A copy ends before the window of its record does, and at most FrontTTL
//     after the store that decides was asked.
//   - A front that is down, slow, empty, full or damaged costs time, never a
//     promise. A call of it is bounded by FrontTimeout, and after a failure
//     it is left alone for a while.
//   - A replay from memory costs no round trip, and goes on while the store that
//     decides is away.
//
// # Forgetting
//
// ibid.Engine.Forget drops the copies of this process and of the front. Other processes
// may replay what they hold in their memory for FrontTTL after it; from then
// on it is effective everywhere (ForgottenWithin), also where the front could not be reached.
// Resolving an unknown outcome is effective at once, since there are copies of completed
// records only.
//
// Between the two, a forgotten key that was run again may be answered with the
// old result by one process and with the new one by another.
//
// # The front
//
// A copy takes its place in three steps: the front is asked to Begin, under a
// key made from the record's; the store that decides is asked; and the front
// is asked to Complete. Whatever drops the place meanwhile, Forget among it,
// makes the last step fail, so that nothing which was read before a Forget is
// copied after it. A front needs no persistence, and may evict what it likes.
// Its copies are believed: whoever can write to it can answer, unless the
// engine seals results.
//
// # What it does not do
//
// It runs no goroutine. It keeps no copy of records that are in progress,
// lapsed, released or expired, and answers Look from the store that decides. It
// does not bound a front that does not obey its context, as ibid.Store must.
package layered
