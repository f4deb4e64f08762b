// Package webhook receives webhooks: it reads the body up to a bound, verifies
// the signature, and only then asks whether the event was processed before.
// Providers deliver an event several times, at once and for days; and whoever
// knows the address can send anything.
//
//	consumer, err := inbox.New(engine, "stripe payments", ibid.Retry, nil)
//	…
//	handler, err := webhook.New(consumer, webhook.Stripe([]byte(secret)),
//		func(ctx context.Context, event webhook.Event) error {
//			return queue.Enqueue(ctx, ibid.DerivedKey(ctx, "job"), event.Body)
//		}, nil)
//	…
//	mux.Handle("POST /hooks/stripe", handler)
//
// # Guarantees
//
//   - A request whose signature is wrong, or whose timestamp is too old, never
//     reaches the store: it can burn no event.
//   - An event is handled once per window, and answered 204 again after that.
//   - An event whose ID the signature does not cover is identified by its body:
//     a captured body with a fresh ID is refused.
//   - 2xx is answered only after the result was recorded.
//
// # Answers
//
//	204  done, now or earlier
//	400  the body could not be read
//	401  the signature is missing or wrong, or the timestamp out of tolerance
//	405  not POST
//	409  the outcome is unknown: someone must look at it
//	413  the body is larger than MaxBody
//	422  the ID was used for another event, or the handler said ibid.Final
//	503  with Retry-After: in progress elsewhere, failed, or not recorded yet
//
// Providers give up after a few seconds: where the work takes longer, let
// enqueueing be the work. A consumer with inbox.Options.Tx has the handler's
// writes and the record committed together.
package webhook
