// Package pgxstore keeps ibid's records in PostgreSQL, through pgx and its pool.
//
//	pool, err := pgxpool.New(ctx, "postgres://payments@db.internal/payments")
//	if err != nil {
//		return err
//	}
//	defer pool.Close()
//	store, err := pgxstore.New(ctx, pool, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	engine, err := ibid.New(ctx, store, &ibid.Options{Require: ibid.PowerLoss})
//
// The records may live beside the application's tables, where CompleteTx
// records a result in the same transaction as the effect.
//
// Do goes further: the claim, the work's own writes and its result are one
// transaction, at two round trips beside those of the work; steps.StepTx does the
// same for a step. docs/transactions.md says when to use which.
//
// # Guarantees
//
//   - A verb is one statement and one round trip. A replay, and a Begin that
//     finds the key taken, write nothing: no row, no lock, no WAL.
//   - A write is acknowledged when its commit is. Describe reads what the
//     server's settings make of that.
//   - Any number of processes share a table. Leases and windows are judged by the
//     server's clock, read when the statement runs and not when a transaction
//     began.
//   - Claims and completions that come while others are under way share a round
//     trip and a commit. An error of one is never another's.
//   - A row that was changed by anything but this package is ibid.ErrDamaged: it is
//     never replayed, never claimed and never swept.
//   - A standby is refused: it may lag, and work would run again that it has not
//     heard of.
//
// # What it does not do
//
// It runs nothing in the background, but for a connection that wakes waiters,
// from the first call that waits until Close or a minute without any: call
// Sweep from time to time, or the table grows. Through a pooler in front
// of the server waiters may not be woken, and poll. An UNLOGGED table is
// emptied by a crash; Describe says so.
//
// A moment of the clock is a microsecond. A lease or window above a hundred
// years is a hundred years. A result above 256 MiB is ibid.ErrTooLarge.
//
// # Errors
//
// A conflict with another transaction (40001, 40P01) is tried again, twenty times at
// most. Everything else is pgx's own error, and errors.As reaches it: after a
// lost connection it is not known whether the write was applied, and the
// verb may be repeated with the same token.
package pgxstore
