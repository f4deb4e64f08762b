package ibid

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Attempt is what work can learn about itself, with AttemptFrom.
type Attempt struct {
	// Key is the digest of the operation's key.
	Key Digest
	// Token and Fence are those of the claim. A downstream that keeps the
	// highest fence it has seen can refuse an attempt that was taken over.
	Token Token
	Fence int64
	// Number counts the attempts of this window, from 1 on.
	Number int
	// Vanished counts the earlier attempts that vanished: their effect may
	// have happened.
	Vanished int
	// Guard is set when the store was unavailable and the work runs protected
	// by nothing but the constraint it names. Token, Fence and Number are
	// then zero.
	Guard string
}

// AttemptFrom returns the attempt whose work ctx belongs to; false outside of
// work.
func AttemptFrom(ctx context.Context) (Attempt, bool) {
	if a := attemptFrom(ctx); a != nil {
		return a.Attempt, true
	}
	return Attempt{}, false
}

// EffectStarted says that from now on the work may have had its effect: a
// failure that it reports later no longer releases the key, and leaves the
// outcome unknown instead. Call it just before the effect. Outside of work it
// does nothing.
func EffectStarted(ctx context.Context) {
	if a := attemptFrom(ctx); a != nil {
		a.started.Store(true)
	}
}

// DerivedKey returns the key to hand downstream for the part of the operation
// named label. It is the same for every attempt, also after a restart; it
// differs from that of any other operation and label, and changes when the key
// is forgotten on purpose. It depends on the scope, the ID, the generation and
// the label, and on no secret. It has the form of a UUID (version 8, RFC 9562
// section 5.8). Outside of work it is empty.
func DerivedKey(ctx context.Context, label string) string {
	a := attemptFrom(ctx)
	if a == nil {
		return ""
	}
	return derivedKey(a.op.key, a.generation, label)
}

var unkeyed digester

func derivedKey(key Key, generation int, label string) string {
	d := unkeyed.sum(purposeDerived, key.Scope, key.ID, strconv.Itoa(generation), label)
	d[6] = d[6]&0x0f | 0x80
	d[8] = d[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}

// attempt is one run of the work. It is the work's context, too: that costs one
// allocation for both, and its cancellation costs nothing until somebody waits
// for it.
type attempt struct {
	Attempt
	op         operation
	engine     *Engine
	generation int
	claimedAt  time.Time       // before Begin was asked: the lease ends no earlier than claimedAt + lease
	parent     context.Context // the caller's
	detached   bool            // the parent's end does not end the work
	deadline   time.Time       // when MaxRun is over
	started    atomic.Bool     // EffectStarted was called
	undone     atomic.Bool     // UndoWrites was called
	steps      []byte          // what earlier attempts left, sealed

	timer *time.Timer // starts renewing

	mu       sync.Mutex
	inner    context.Context // nil until somebody waits for Done, or the work is cancelled
	cancel   context.CancelCauseFunc
	ended    bool          // the work has returned: renew no more
	over     bool          // the claim is settled, too: nothing may wait for the work's context any more
	stop     chan struct{} // closed to stop renewing; nil while nothing renews
	stopped  chan struct{} // closed when renewing has stopped
	prepared *preparation  // what Prepare made of the result
}

type attemptKey struct{}

func attemptFrom(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

func (a *attempt) now() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.inner != nil:
		return a.inner
	case a.detached:
		return context.WithoutCancel(a.parent)
	}
	return a.parent
}

// Deadline implements context.Context.
func (a *attempt) Deadline() (time.Time, bool) {
	if earlier, ok := a.parent.Deadline(); ok && !a.detached && earlier.Before(a.deadline) {
		return earlier, true
	}
	return a.deadline, true
}

// Done implements context.Context.
func (a *attempt) Done() <-chan struct{} { return a.cancellable().Done() }

// Err implements context.Context.
func (a *attempt) Err() error {
	a.mu.Lock()
	ended := a.over && a.inner == nil
	a.mu.Unlock()
	if ended {
		return context.Canceled
	}
	return a.now().Err()
}

// Value implements context.Context.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.now().Value(key)
}

func (a *attempt) cancellable() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inner == nil {
		parent := a.parent
		if a.detached {
			parent = context.WithoutCancel(parent)
		}
		a.inner, a.cancel = context.WithCancelCause(parent)
		if a.over {
			a.cancel(context.Canceled)
		}
	}
	return a.inner
}

// endContext ends the work's context once the claim is settled. What hangs on
// the caller's context goes with it: that one may live as long as the process.
func (a *attempt) endContext() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.cancel != nil {
		a.cancel(context.Canceled)
	}
}

// cancelWork cancels the work's context.
func (a *attempt) cancelWork(cause error) {
	a.cancellable()
	a.cancel(cause)
}
