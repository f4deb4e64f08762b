// Package inboxtest is the conformance suite of package inbox for adapters: what
// a consumer on a real broker must do about duplicates, failures, slow work,
// moved partitions and lost acknowledgements.
//
//	inboxtest.Run(t, inboxtest.Target{Open: func(ctx context.Context) (inboxtest.Broker, error) { … }})
//
// The oracle is a ledger of effects without a unique constraint, so that a
// duplicate can show. Cases are data: see Cases and Check for use without
// package testing.
package inboxtest
