package layered

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// A place in the front lives place, from before the store that decides is
// asked; only what fills it in that time is copied. The copy then lives for the
// rest of FrontTTL. So also a Complete that reaches the front late, because the
// front or the network stood still, makes no copy that is older than FrontTTL.

// placeLease is how long a place is kept from others. Whoever runs the work holds
// one in vain; a retry that comes later than this takes it over.
const placeLease = 50 * time.Millisecond

// front is a store that several processes share.
type front struct {
	store   ibid.Store
	prefix  []byte // of what keys in the front are digests of
	timeout time.Duration
	ttl     time.Duration // FrontTTL
	place   time.Duration // how long a place lives
	breaker breaker
	counts  *counters
}

func newFront(o *Options, c *counters) *front {
	f := &front{store: o.Front, timeout: o.FrontTimeout, ttl: o.FrontTTL, counts: c}
	f.place = min(5*time.Second, o.FrontTTL/4)
	f.breaker.longest = o.FrontPause
	name := sha256.Sum256([]byte(o.Name))
	f.prefix = append([]byte("ibid layered 1\x00"), name[:]...)
	return f
}

// key returns where the copy of key stands: never where the front, used as a
// store of its own, would keep the record of a key.
func (f *front) key(key ibid.Digest) ibid.Digest {
	return sha256.Sum256(append(f.prefix[:len(f.prefix):len(f.prefix)], key[:]...))
}

// ask calls the front, within its time, unless it is being left alone. It
// reports whether the front answered.
func (f *front) ask(ctx context.Context, call func(context.Context) error) bool {
	ok, trial := f.breaker.allows(time.Now())
	if !ok {
		return false
	}
	limit, cancel := ctx, context.CancelFunc(func() {})
	if f.timeout > 0 {
		limit, cancel = context.WithTimeout(ctx, f.timeout)
	}
	err := call(limit)
	cancel()
	switch {
	case err == nil, errors.Is(err, ibid.ErrClaimLost), errors.Is(err, ibid.ErrFull),
		errors.Is(err, ibid.ErrDamaged), errors.Is(err, ibid.ErrTooLarge):
		f.breaker.answered()
		return err == nil
	case ctx.Err() != nil: // the caller went away
		f.breaker.unknown(trial)
		return false
	}
	f.counts.failed.Add(1)
	f.breaker.failed(time.Now(), trial)
	return false
}

// begin returns the copy of key or, when there is none, the token of a place
// for it; the zero token when there is no place either.
func (f *front) begin(ctx context.Context, key ibid.Digest) (copied, ibid.Token, bool) {
	at := f.key(key)
	lease := min(placeLease, f.place/2)
	claim := ibid.Claim{Token: ibid.NewToken(), Lease: lease, Window: f.place - lease, MaxTakeovers: -1}
	var rec ibid.Record
	ok := f.ask(ctx, func(ctx context.Context) (err error) {
		rec, err = f.store.Begin(ctx, at, claim)
		return err
	})
	switch {
	case !ok:
	case rec.State == ibid.Completed:
		if c, ok := f.decode(at, rec); ok {
			return c, ibid.Token{}, true
		}
	case rec.OwnedBy(claim.Token):
		return copied{}, claim.Token, false
	}
	return copied{}, ibid.Token{}, false
}

// fill puts a copy of rec, which was read under the place of token, in it.
func (f *front) fill(ctx context.Context, key ibid.Digest, token ibid.Token, rec ibid.Record, asked time.Time) {
	// Applied as late as the place allows, it ends with the window all the same.
	keep := min(f.ttl, rec.Window) - f.place
	if keep <= 0 {
		return
	}
	at := f.key(key)
	data := encode(at, rec, rec.Window-time.Since(asked), keep)
	f.ask(ctx, func(ctx context.Context) error {
		return f.store.Complete(ctx, at, token, data, ibid.Keep{Retain: keep})
	})
}

// forget drops the copy of key, and every place for one.
func (f *front) forget(ctx context.Context, key ibid.Digest) {
	inspector, ok := ibid.As[ibid.Inspector](f.store)
	if !ok {
		return
	}
	at := f.key(key)
	for range 3 { // a place may be taken, or filled, between the two calls
		lost := false
		f.ask(ctx, func(ctx context.Context) error {
			rec, err := f.store.Look(ctx, at)
			if err != nil || rec.State == ibid.Absent {
				return err
			}
			err = inspector.Forget(ctx, at, rec.Token, f.ttl)
			lost = errors.Is(err, ibid.ErrClaimLost)
			return err
		})
		if !lost {
			return
		}
	}
}

// A copy at rest is a record of package record under the copy's own key, with
// durations in place of times: WindowEnd is what was left of the record's window
// when the copy was made, and Gone is that and how long the copy is kept.

func encode(at ibid.Digest, r ibid.Record, window, keep time.Duration) []byte {
	c := record.Record{
		Done: true, Token: r.Token, Fence: r.Fence, Attempt: r.Attempt, Vanished: r.Vanished, Generation: r.Generation,
		Fingerprint: r.Fingerprint, Scope: r.Scope, Label: r.Label, Steps: r.Steps, Result: r.Result,
		WindowEnd: int64(window), Gone: int64(window + keep),
	}
	return c.Append(nil, at)
}

// decode reads a copy. What cannot be understood is no copy.
func (f *front) decode(at ibid.Digest, kept ibid.Record) (copied, bool) {
	r, err := record.Decode(at, kept.Result)
	keep := r.Gone - r.WindowEnd
	age := keep - int64(kept.Window)
	if err != nil || !r.Done || age < 0 || keep > int64(f.ttl) || r.WindowEnd <= age {
		return copied{}, false
	}
	view := ibid.Record{
		State: ibid.Completed, Token: r.Token, Fence: r.Fence, Attempt: r.Attempt, Vanished: r.Vanished, Generation: r.Generation,
		Fingerprint: r.Fingerprint, Scope: r.Scope, Label: r.Label, Steps: r.Steps, Result: r.Result,
		Window: time.Duration(r.WindowEnd - age),
	}
	return copied{rec: view, ends: min(kept.Window, view.Window)}, true
}
