// Package broken breaks ibid on purpose, in the ways that real services get
// idempotency wrong, so that a tour can show that it would notice.
package broken

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// The ways to break it.
const (
	// NoClaim looks for a result and runs the work when there is none, without
	// claiming the key first: two requests at once both find none.
	NoClaim = "no-claim"
	// ReleaseAfterSuccess frees the key when the work is done, instead of
	// recording its result: a lock, and not a memory.
	ReleaseAfterSuccess = "release-after-success"
	// RequestContext runs the work on the context of its request: a caller that
	// hangs up cancels it half-way.
	RequestContext = "request-context"
	// FreshChargeKey hands the payment provider another key in every attempt of
	// an order, instead of the derived one. Package orders does it.
	FreshChargeKey = "fresh-charge-key"
)

// Store returns store broken in the way of how; store itself when the way has
// nothing to do with it.
func Store(how string, store ibid.Store) ibid.Store {
	switch how {
	case NoClaim:
		return &noClaim{Store: store}
	case ReleaseAfterSuccess:
		return releaseAfterSuccess{store}
	}
	return store
}

// noClaim reads before the work and writes after it.
type noClaim struct {
	ibid.Store
	claims sync.Map // token → the claim that was pretended
}

func (s *noClaim) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	rec, err := s.Look(ctx, key)
	if err != nil || rec.State == ibid.Completed || rec.State == ibid.Expired {
		return rec, err
	}
	s.claims.Store(claim.Token, claim)
	return ibid.Record{
		State: ibid.InProgress, Token: claim.Token, Fence: 1, Attempt: 1, Fingerprint: claim.Fingerprint,
		Scope: claim.Scope, Lease: claim.Lease, Window: claim.Window,
	}, nil
}

// Complete records the result of whoever comes first, and lets the others
// believe that it was theirs.
func (s *noClaim) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	claim, ok := s.claims.LoadAndDelete(token)
	if !ok {
		return nil
	}
	rec, err := s.Store.Begin(ctx, key, claim.(ibid.Claim))
	if err != nil || !rec.OwnedBy(token) {
		return err
	}
	return s.Store.Complete(ctx, key, token, result, keep)
}

func (s *noClaim) Extend(context.Context, ibid.Digest, ibid.Token, time.Duration) error { return nil }

func (s *noClaim) Release(_ context.Context, _ ibid.Digest, token ibid.Token) error {
	s.claims.Delete(token)
	return nil
}

// releaseAfterSuccess forgets instead of recording.
type releaseAfterSuccess struct{ ibid.Store }

func (s releaseAfterSuccess) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, _ []byte, _ ibid.Keep) error {
	return s.Release(ctx, key, token)
}

// Middleware returns guard, the middleware of ibid, broken in the way of how;
// guard itself when the way has nothing to do with it.
func Middleware(how string, guard func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	if how != RequestContext {
		return guard
	}
	return func(h http.Handler) http.Handler {
		inside := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			caller := r.Context().Value(callerKey{}).(context.Context)
			defer context.AfterFunc(caller, func() { cancel(caller.Err()) })()
			h.ServeHTTP(w, r.WithContext(ctx))
		}))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inside.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, r.Context())))
		})
	}
}

// callerKey is where the context of the request stays reachable for work that
// ibid detached from it.
type callerKey struct{}
