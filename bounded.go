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

	mu     sync.Mutex
	inner  context.Context // nil until Done was asked for
	cancel context.CancelFunc
}

// bound returns parent, ended after d at the latest. The caller calls end.
func bound(parent context.Context, d time.Duration) *bounded {
	deadline := time.Now().Add(d)
	if earlier, ok := parent.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	return &bounded{parent: parent, deadline: deadline}
}

func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *bounded) now() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		return b.parent
	}
	return b.inner
}

// Deadline implements context.Context.
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements context.Context.
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		b.inner, b.cancel = context.WithDeadline(b.parent, b.deadline)
	}
	return b.inner.Done()
}

// Err implements context.Context.
func (b *bounded) Err() error {
	if err := b.now().Err(); err != nil {
		return err
	}
	if !time.Now().Before(b.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (b *bounded) Value(key any) any { return b.now().Value(key) }
