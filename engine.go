package ibid

import (
	"context"
	"fmt"
	"time"
)

// Engine runs work at most once per key, over a Store. It is safe for
// concurrent use. It starts no goroutine of its own; close it with Drain.
type Engine struct {
	store   Store
	opts    Options
	digests digester
}

// Call is one request to run an operation.
type Call struct {
	// Key names the operation. Required.
	Key Key
	// Fingerprint is what is asked for under the key, from Engine.Fingerprint. The zero
	// value stands for "nothing but the key": every call of the key asks for the same.
	Fingerprint Fingerprint
	// Policy overrides the engine's policy, field by field; nil overrides nothing.
	Policy *Policy
	// Probe is asked when a vanished attempt was taken over. Required when
	// the policy is Probe, and only then. See ProbeFor.
	Probe Prober
	// Label is shown, sealed at rest, to operators who list the store. It is
	// dropped when the engine has no Seal keys.
	Label string
}

// Work does what must happen once and returns its result. It reports: a nil
// error records the result; Final(err) records the error; any other error
// releases the key, unless EffectStarted was called. Or it vanishes: a panic,
// runtime.Goexit, MaxRun over, or an error that is context.Canceled or
// context.DeadlineExceeded leaves the outcome unknown.
type Work func(ctx context.Context) ([]byte, error)

// Outcome says how a call got its answer. It is valid with every error, too.
type Outcome struct {
	// Replayed is true when the answer was recorded by an earlier call.
	Replayed bool
	// Attempt and Fence are those of the claim that made the answer, where it is known.
	Attempt int
	Fence   int64
	// Expires is how long the result will still be replayed; 0 when no result is kept.
	Expires time.Duration
	// Guard is set when the store was unavailable and the work ran protected
	// by nothing but the constraint it names.
	Guard string
}

// New returns an engine over store, which stays the caller's to close. It reads
// the store once, within ctx: to compare the secret with that of earlier engines, and
// the store's settings with Options.Require. ErrInvalid reports what cannot
// keep a promise, and names the field.
func New(ctx context.Context, store Store, opts *Options) (*Engine, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: store is nil", ErrInvalid)
	}
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	e := &Engine{store: store, opts: o, digests: digester{secret: o.Secret}}
	return e, nil
}
