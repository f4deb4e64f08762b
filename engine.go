package ibid

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Engine runs work at most once per key, over a Store. It is safe for
// concurrent use. It starts no goroutine of its own; close it with Drain.
type Engine struct {
	store   Store
	opts    Options
	digests digester
	sealer  sealer
	gate    gate
	flights flights
	debts   debts
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
	// Tx runs the work in transactional mode: inside a database transaction of
	// this store, which is usually the engine's own, with record, result and
	// the work's writes committed together. The work finds the transaction in
	// its context, by the store's accessor. Nil is lease mode.
	Tx TxStore
	// Label is shown, sealed at rest, to operators who list the store. It is
	// dropped when the engine has no Seal keys.
	Label string
}

// Work does what must happen once and returns its result. It reports: a nil
// error records the result; Final(err) records the error; any other error
// releases the key, unless EffectStarted was called. Or it vanishes: a panic,
// runtime.Goexit, MaxRun over, or an error that is context.Canceled or
// context.DeadlineExceeded leaves the outcome unknown. Its context ends with it.
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

// New returns an engine over store, which stays the caller's to close. It asks
// the store, within ctx, for the check record that stops an engine with another
// secret, and with Options.Require for its settings. ErrInvalid reports what
// cannot keep a promise, and names the field.
func New(ctx context.Context, store Store, opts *Options) (*Engine, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: store is nil", ErrInvalid)
	}
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	e := &Engine{store: store, opts: o}
	e.digests.secret = bytes.Clone(o.Secret)
	if e.sealer, err = newSealer(o.Seal); err != nil {
		return nil, err
	}
	if err := e.checkRequired(ctx); err != nil {
		return nil, err
	}
	if err := e.checkSecret(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// Store returns the store that New was given.
func (e *Engine) Store() Store { return e.store }

// Check returns the error that Do would return for what is wrong with the
// policy of a call, taken together with the engine's own, when the call has a
// Probe or has none: adapters call it when they are made.
func (e *Engine) Check(policy *Policy, probes bool) error {
	p, err := e.policy(policy)
	if err != nil {
		return err
	}
	return p.checkProbe(probes)
}

// Policy returns policy as the engine applies it, with the engine's own in
// place of its zero fields, and the error of Check.
func (e *Engine) Policy(policy *Policy) (Policy, error) { return e.policy(policy) }

func (e *Engine) policy(p *Policy) (Policy, error) {
	if p == nil {
		return e.opts.Policy, nil
	}
	merged := p.or(e.opts.Policy)
	return merged, merged.check()
}

func (e *Engine) checkRequired(ctx context.Context) error {
	if e.opts.Require == 0 {
		return nil
	}
	d, ok := As[Describer](e.store)
	if !ok {
		return fmt.Errorf("%w: Options.Require: the store does not say what it survives", ErrInvalid)
	}
	limit := bound(ctx, e.opts.StoreTimeout)
	defer limit.end()
	desc, err := d.Describe(limit)
	if err != nil {
		return &StoreError{Verb: "describe", Err: err}
	}
	return desc.require(e.opts.Require)
}

// checkKey is where the check record stands. Digests of keys are made with
// another purpose, so no key has it.
var checkKey = unkeyed.sum(purposeCheck, "where")

// checkSecret records what the secret makes of a fixed text, or compares it
// with what the first engine of this store recorded.
func (e *Engine) checkSecret(ctx context.Context) error {
	mine := e.digests.sum(purposeCheck, "what")
	forever := Keep{Retain: maxDuration}
	// A claim that an engine died over lapses before another one gives up.
	claim := Claim{Lease: e.opts.StoreTimeout, Window: time.Hour, MaxTakeovers: -1}
	limit := bound(ctx, 2*e.opts.StoreTimeout)
	defer limit.end()
	for {
		claim.Token = NewToken()
		rec, err := e.store.Begin(limit, checkKey, claim)
		if err != nil {
			return &StoreError{Verb: "begin", Err: err}
		}
		switch {
		case rec.OwnedBy(claim.Token):
			err := e.store.Complete(limit, checkKey, claim.Token, sealer{}.seal(checkKey, kindValue, mine[:]), forever)
			if err == nil {
				return nil
			}
			if !errors.Is(err, ErrClaimLost) { // or another engine took over: it may have another secret
				return &StoreError{Verb: "complete", Err: err}
			}
		case rec.State == Completed:
			_, theirs, err := sealer{}.open(checkKey, rec.Result)
			if err != nil {
				return &StoreError{Verb: "begin", Err: err}
			}
			if !hmac.Equal(theirs, mine[:]) {
				return fmt.Errorf("%w: Options.Secret: this store was used with another secret, or none; its keys would not be found again", ErrInvalid)
			}
			return nil
		}
		// Another engine is writing the check record at this moment.
		if err := sleep(limit, 20*time.Millisecond); err != nil {
			return &StoreError{Verb: "begin", Err: err}
		}
	}
}

// emit tells the observers.
func (e *Engine) emit(ctx context.Context, ev Event) {
	for _, observe := range e.opts.Observe {
		observe(ctx, ev)
	}
}

// sleep waits for d, or returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// jitter returns a random duration between half of d and d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
