package ibid

import (
	"context"
	"fmt"
	"time"
)

// Takeover says what follows when the attempt that holds a key vanished: its
// process died, it panicked, MaxRun was over, or it ended with a context error.
// The zero Takeover is not set, so that a call can refuse what its engine would retry.
type Takeover uint8

const (
	// Refuse answers ErrUnknown until the owner still completes or someone
	// resolves the key. The effect happens at most once, if work that reports
	// a failure had none.
	Refuse Takeover = iota + 1
	// Retry runs the work again and tells it so (Attempt.Vanished). The effect
	// happens at least once, and once if the work passes its DerivedKey to a
	// downstream that deduplicates, or hits a unique constraint.
	Retry
	// Probe takes the claim over and asks Call.Probe, which looks the effect
	// up by DerivedKey. The effect happens at most once, if the earlier attempt
	// is dead or the downstream deduplicates the derived key.
	Probe
)

// String returns the policy's name.
func (t Takeover) String() string {
	switch t {
	case Refuse:
		return "refuse"
	case Retry:
		return "retry"
	case Probe:
		return "probe"
	}
	return fmt.Sprintf("takeover(%d)", uint8(t))
}

// Found is what a probe found out about the effect of a vanished attempt.
type Found uint8

const (
	// FoundUnknown means that it cannot be told: the claim is given up again and
	// the caller gets ErrUnknown.
	FoundUnknown Found = iota
	// FoundDone means that the effect happened: the result is recorded.
	FoundDone
	// FoundNotDone means that the effect did not happen and no longer can: the
	// work runs.
	FoundNotDone
)

// Prober asks the downstream about the effect of a vanished attempt, by the
// key that DerivedKey(ctx, label) returns. With FoundDone it returns the
// result, encoded as the work would have encoded it. An error counts as
// FoundUnknown.
type Prober func(ctx context.Context) (Found, []byte, error)

// Policy is how operations of one kind are treated. In Call.Policy a zero field
// stands for the engine's own, in Options.Policy for the default named here.
type Policy struct {
	// Takeover is what follows a vanished attempt. Default Refuse.
	Takeover Takeover
	// Lease is how long a claim holds without renewal; it is renewed at a third
	// of it. Default 30 s; at least 10 ms; not more than MaxRun.
	Lease time.Duration
	// MaxRun bounds one attempt: when it is over, the work's context is
	// cancelled with ErrMaxRun as its cause, and the lease is no longer renewed.
	// Default 5 min; less than Retain.
	MaxRun time.Duration
	// Retain is the window: how long a result is replayed, from its completion on,
	// and how long a key without result outlives its lease. Default 24 h.
	Retain time.Duration
	// Remember is how long after the window the key is refused with ErrExpired instead
	// of run again. Default 0; negative is 0.
	Remember time.Duration
	// Wait is how long a call waits for another attempt before it answers
	// ErrInProgress. Default 0: not at all. Negative is 0, also where
	// the engine's own is more.
	Wait time.Duration
	// RetryAfter is what InProgressError suggests. Default 2 s.
	RetryAfter time.Duration
	// MaxTakeovers bounds how many vanished attempts of a key may be taken
	// over; beyond it the outcome is unknown. Default 5; negative is no bound.
	// It means nothing under Refuse.
	MaxTakeovers int
	// MaxAttempts bounds the attempts of a key in all, those that reported a
	// failure included; beyond it they are refused with ErrAttempts, or with
	// ErrUnknown when one of them vanished. Default and negative: no bound.
	MaxAttempts int
	// Guard names the unique constraint that keeps the effect from happening
	// twice while the store is unavailable: the work then runs unguarded by
	// ibid (fail open), with Attempt.Guard and Outcome.Guard set. Default "":
	// nothing runs (fail closed).
	Guard string
	// ReleaseOnPanic releases the key when the work panics, for work that is
	// known to have no effect before it returns. Default false: a
	// panic is a vanished attempt. Work that called EffectStarted is
	// never released.
	ReleaseOnPanic bool
	// Detach runs the work on a context that the caller's hanging up does not
	// cancel. Its values stay. Default false; the HTTP middleware and message
	// consumers set it.
	Detach bool
}

// Defaults of Policy.
const (
	DefaultLease        = 30 * time.Second
	DefaultMaxRun       = 5 * time.Minute
	DefaultRetain       = 24 * time.Hour
	DefaultRetryAfter   = 2 * time.Second
	DefaultMaxTakeovers = 5
)

// maxDuration bounds every duration of a policy, so that no store's clock
// overflows: 100 years.
const maxDuration = 100 * 365 * 24 * time.Hour

// or returns p with its zero fields taken from base.
func (p Policy) or(base Policy) Policy {
	pick(&p.Takeover, base.Takeover)
	pick(&p.Lease, base.Lease)
	pick(&p.MaxRun, base.MaxRun)
	pick(&p.Retain, base.Retain)
	pick(&p.Remember, base.Remember)
	pick(&p.Wait, base.Wait)
	pick(&p.RetryAfter, base.RetryAfter)
	pick(&p.MaxTakeovers, base.MaxTakeovers)
	pick(&p.MaxAttempts, base.MaxAttempts)
	pick(&p.Guard, base.Guard)
	pick(&p.ReleaseOnPanic, base.ReleaseOnPanic)
	pick(&p.Detach, base.Detach)
	return p
}

func pick[T comparable](field *T, base T) {
	var zero T
	if *field == zero {
		*field = base
	}
}

// withDefaults returns p with its zero fields replaced by the defaults.
func (p Policy) withDefaults() Policy {
	return p.or(Policy{
		Takeover:     Refuse,
		Lease:        DefaultLease,
		MaxRun:       DefaultMaxRun,
		Retain:       DefaultRetain,
		RetryAfter:   DefaultRetryAfter,
		MaxTakeovers: DefaultMaxTakeovers,
	})
}

// check returns an error that names the first field that cannot keep a promise.
func (p Policy) check() error {
	for _, f := range []struct {
		name string
		d    time.Duration
		min  time.Duration
	}{
		{"Lease", p.Lease, 10 * time.Millisecond},
		{"MaxRun", p.MaxRun, 1},
		{"Retain", p.Retain, 1},
		{"Remember", max(p.Remember, 0), 0},
		{"Wait", max(p.Wait, 0), 0},
		{"RetryAfter", p.RetryAfter, 1},
	} {
		if f.d < f.min || f.d > maxDuration {
			return fmt.Errorf("%w: Policy.%s is %v: it must lie between %v and %v", ErrInvalid, f.name, f.d, f.min, maxDuration)
		}
	}
	switch {
	case p.Takeover > Probe:
		return fmt.Errorf("%w: Policy.Takeover is %d: it must be Refuse, Retry or Probe", ErrInvalid, p.Takeover)
	case p.Lease > p.MaxRun:
		return fmt.Errorf("%w: Policy.Lease is %v, longer than MaxRun (%v): a claim would outlive the work it stands for", ErrInvalid, p.Lease, p.MaxRun)
	case p.MaxRun >= p.Retain:
		return fmt.Errorf("%w: Policy.MaxRun is %v, not less than Retain (%v): work could end after its key was forgotten", ErrInvalid, p.MaxRun, p.Retain)
	}
	return nil
}

// checkProbe returns an error when a call has a Probe that is never asked, or has none.
func (p Policy) checkProbe(probes bool) error {
	if (p.Takeover == Probe) != probes {
		return fmt.Errorf("%w: Call.Probe: it is required when Policy.Takeover is Probe, and only then", ErrInvalid)
	}
	return nil
}

// claim returns what the policy asks of the store.
func (p Policy) claim() Claim {
	c := Claim{Lease: p.Lease, Window: p.Retain, MaxTakeovers: p.MaxTakeovers, MaxAttempts: p.MaxAttempts}
	if p.Takeover == Refuse {
		c.MaxTakeovers = 0
	}
	return c
}
