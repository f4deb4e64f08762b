package ibid

import (
	"context"
	"sync"
	"time"
)

// bounded is a context with a deadline that costs one allocation until somebody
// waits for it. A store that only asks Err, as those in memory do, pays for no
// timer.
type bounded struct {
	parent   context.Context
	deadline time.Time
	detached bool // the parent's end does not end it

	mu     sync.Mutex
	inner  context.Context // nil until Done was asked for
	cancel context.CancelFunc
}

// bound returns parent, ended after d at the latest. The caller calls end.
func bound(parent context.Context, d time.Duration) *bounded {
	return boundFrom(time.Now(), parent, d)
}

// boundFrom is bound for a caller that has just looked at the clock.
func boundFrom(now time.Time, parent context.Context, d time.Duration) *bounded {
	deadline := now.Add(d)
	if earlier, ok := parent.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	return &bounded{parent: parent, deadline: deadline}
}

// boundDetached returns a context with parent's values that only d ends.
func boundDetached(parent context.Context, d time.Duration) *bounded {
	return &bounded{parent: parent, deadline: time.Now().Add(d), detached: true}
}

// end frees the timer, if there is one.
func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
}

// Deadline implements context.Context.
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements context.Context.
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		parent := b.parent
		if b.detached {
			parent = context.WithoutCancel(parent)
		}
		b.inner, b.cancel = context.WithDeadline(parent, b.deadline)
	}
	return b.inner.Done()
}

// Err implements context.Context.
func (b *bounded) Err() error {
	b.mu.Lock()
	inner := b.inner
	b.mu.Unlock()
	switch {
	case inner != nil:
		return inner.Err()
	case !b.detached && b.parent.Err() != nil:
		return b.parent.Err()
	}
	if !time.Now().Before(b.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (b *bounded) Value(key any) any {
	b.mu.Lock()
	inner := b.inner
	b.mu.Unlock()
	if inner == nil {
		inner = b.parent
	}
	return inner.Value(key)
}
