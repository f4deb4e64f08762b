// Package ibid makes side effects happen once: a retried request, a redelivered
// message or a restarted process runs no work again, and every retry gets the
// first answer. Networks lose answers, clients and brokers repeat themselves,
// and processes die half-way; this package keeps one record per key in a store
// you already run, and lets the record decide.
//
//	engine, err := ibid.New(ctx, new(memstore.Store), nil)
//	if err != nil {
//		return err
//	}
//	call := ibid.Call{
//		Key:         ibid.Key{Scope: "user 17", ID: "order-42"},
//		Fingerprint: engine.Fingerprint(body),
//	}
//	receipt, outcome, err := ibid.Do(ctx, engine, call,
//		func(ctx context.Context) (Receipt, error) {
//			ibid.EffectStarted(ctx)
//			return bank.Charge(ctx, ibid.DerivedKey(ctx, "charge"), 3000, "TWD")
//		})
//
// HTTP services use package ibidhttp, which does this for a handler in one
// line; [Func] does it for a function.
//
// # What happens to a key
//
//	           Begin                  Complete              Retain over
//	(absent) ──────────▶ in progress ─────────────▶ completed ──────────▶ expired
//	    ▲                 │   ▲   │                     ▲                     │
//	    │         Release │   │   │ lease over,         │            Remember │
//	    │                 ▼   │   ▼ or given up         │                over │
//	    │            released │  lapsed ────Complete────┘                     │
//	    │                 │   │   │                                           │
//	    │                 └───┴───┘ Begin (a takeover, of a lapsed claim)     │
//	    └─────────────────────────────────────────────────────────────────────┘
//
// Work either reports (it returns a result or an error) or vanishes (its
// process dies, it panics, MaxRun is over, it ends with a context error). A
// reported failure releases the key, unless the work called [EffectStarted].
// After work that vanished nobody can tell whether the effect happened, and the
// operation's [Takeover] policy says what follows.
//
// # Guarantees
//
//   - At most one result is recorded for a key within its window, and every
//     later call with the same fingerprint gets it, byte for byte.
//   - No caller learns a result before the store has acknowledged it.
//   - The same key with another fingerprint is refused and never runs.
//   - At most one attempt holds the claim according to the store, and an
//     attempt whose claim was taken over can never record a result.
//   - An outcome that is unknown is said to be unknown ([ErrUnknown]), and
//     never reported as a failure.
//   - When the store cannot be asked, or a record cannot be understood, nothing
//     runs, unless the policy names a guard.
//   - A caller that goes away never cancels the recording of a result.
//
// # What it does not do
//
// A lease cannot make an effect elsewhere happen exactly once: a process that
// was paused may still be executing when its lease has lapsed. Under [Refuse]
// nothing runs after that; under [Retry] and [Probe] the work runs again, and
// the effect happens once if the downstream deduplicates [DerivedKey]. The
// engine starts no goroutine of its own accord, deletes nothing in the
// background (see [Engine.Sweep]) and keeps no request.
//
// # Choosing a store
//
// Package memstore keeps records for the life of one process. Package sqlstore
// keeps them in SQLite, on one host, or in PostgreSQL, MySQL and MariaDB;
// pgxstore and redisstore, modules of their own, are faster where pgx or Redis
// is at hand; layered replays copies in front of any of them. What a store
// survives depends on its server's settings and is in its [Description];
// [Options].Require refuses one that survives too little. A store of your own
// implements [Store], and package storetest tells what breaks and why.
//
// # Errors
//
// Answers that are not a result are sentinels ([ErrInProgress], [ErrMismatch],
// [ErrUnknown], [ErrExpired], [ErrNotKept], …), found with [errors.Is]; those
// that carry data are types, found with [errors.As]. What the work returned is
// passed on as it is. A failure of the store is a [StoreError].
package ibid
