// Package ibidhttp makes HTTP handlers answer a retried request with the first
// answer instead of running again. Clients send an idempotency key; the
// middleware claims it, runs the handler once, records what it answered, and
// replays that to every later request with the same key.
//
//	engine, err := ibid.New(ctx, store, &ibid.Options{Secret: secret})
//	…
//	pay := ibidhttp.New(engine, ibidhttp.ByPrincipal(userID), &ibidhttp.Options{Required: true})
//	mux.Handle("POST /payments", pay(createPayment))
//	mux.Handle("POST /refunds", pay(createRefund))
//
// The middleware belongs inside authentication, authorization, compression and
// CORS: a replay must pass them like any other request, and what they add to an
// answer is made anew for each.
//
// What a request meets, in this order:
//
//	not guarded, or no key ──▶ the handler, as without the middleware
//	malformed ───────────────▶ 400, 403, 413: nothing is asked of the store
//	new key ─────────────────▶ the handler; record; answer
//	  answer not kept ───────▶ answer; the key is free
//	  handler vanished ──────▶ outcome unknown: see ibid.Takeover
//	known key
//	  other request ─────────▶ 422
//	  in progress ───────────▶ wait, or 409 with Retry-After
//	  outcome unknown ───────▶ 409
//	  recorded ──────────────▶ replay
//
// docs/spec.md has all of it as numbered clauses.
//
// # Guarantees
//
// No byte of the final answer leaves before the store has acknowledged it. A
// replay has the status, the kept headers and the body of the first answer,
// byte for byte. A request with the same key and another content is refused and
// never runs. A caller that hangs up cancels neither the handler nor the
// recording. A store that cannot be asked runs nothing.
//
// # What it does not do
//
// It cannot know what a handler did outside of it. Failures that a handler
// reports (5xx and a few others, see Options.Kept) free the key, so that the
// retry runs again: a handler whose effect may have happened before it
// fails calls [ibid.EffectStarted] just before the effect, and the outcome is then
// unknown instead of free. [http.TimeoutHandler] belongs outside of the
// middleware: inside, it reports 503 for a handler that still runs.
//
// It holds the whole answer back until it is recorded; only routes that declare
// Options.Streaming answer as they go, and are not replayed. It upgrades no
// connections: Hijack is refused.
//
// It does not authenticate. A scope that a client can choose is no scope.
//
// # Choosing a store
//
// See package ibid. Answers are in the store as they were given: an engine with
// Options.Seal encrypts them, and one with Options.Secret lets keys and
// fingerprints say nothing of what they stand for.
//
// # Errors
//
// What the middleware itself answers is application/problem+json (RFC 9457)
// with one of the types below. It tells nothing of what was recorded.
package ibidhttp
