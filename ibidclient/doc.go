// Package ibidclient makes the client's half of idempotency: an
// http.RoundTripper that gives every operation one key before its first
// attempt, keeps that key over all attempts, and retries only where the server's
// answer allows it.
//
//	client := ibidclient.New(nil)
//
//	ctx := ibidclient.WithKey(ctx, ibidclient.KeyFor("order", order.ID))
//	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
//	if err != nil {
//		return err
//	}
//	resp, err := client.Do(req)
//	if err := ibidclient.Check(resp, err); err != nil {
//		var failed *ibidclient.Error
//		errors.As(err, &failed)
//		switch failed.Outcome {
//		case ibidclient.NotExecuted: // nothing happened: try again later, or drop it
//		case ibidclient.Unknown:     // it may have happened: try again under failed.Key, and no other
//		case ibidclient.Refused:     // the server said no: nothing to retry
//		case ibidclient.Completed:   // it happened: what is missing is its answer
//		}
//	}
//
// # Keys
//
// The key of a request is, in this order, what its header says, what its
// context says (WithKey), or one that is minted for the request, for POST and
// PATCH. It is made before anything is sent and never again: a retry has the
// key of the first attempt. A redirect that keeps the method keeps the key.
//
// A key bound to business data (KeyFor) survives the process by itself. A
// minted one does so only with a Journal, which keeps it before the first byte
// is sent.
//
// A request without a key whose method is safe (GET, HEAD, OPTIONS, TRACE) is
// retried too. Any other request without a key is passed on once, untouched.
//
// # Guarantees
//
//   - Every attempt of an operation carries the same key and the same body.
//   - With a journal, the key is kept before the first byte is sent.
//   - No attempt is begun after the server's window, as far as it is known.
//   - What a server calls refused, mismatch or unknown is never retried.
//   - NotExecuted is said only where no attempt can have reached the server's
//     work. When in doubt it is Unknown.
//
// # What it does not do
//
// It does not make a server idempotent: a server that ignores the key runs
// every attempt. It cannot call back a request that is still in the network
// when the window ends. It knows nothing of what a process did with an answer.
//
// # Errors
//
// RoundTrip returns an Error when it has no answer to return. An answer, also
// one of 4xx or 5xx, is returned as a response, as the contract of
// http.RoundTripper demands; Check turns both into one Error.
package ibidclient
