package sqlstore

import (
	"context"
	"slices"
	"sync"
	"time"
)

// call is one write that waits for its turn.
type call struct {
	// run is what to do inside the transaction of a batch. Nil is a call that
	// wants the connection to itself: it is never part of another's batch.
	run     func(*batch) error
	entered time.Time
	err     error
	leads   bool
	wake    chan struct{} // receives once: the call leads, or err is its answer
}

// queue lets one caller at a time lead: write for itself and for those that
// wait behind it. Whoever finds no leader becomes one; a leader hands on to the oldest
// that waits as soon as its own call is answered, so that no caller
// works for others without end, and no goroutine is needed to serve them.
type queue struct {
	mu      sync.Mutex
	led     bool
	waiting []*call // oldest first
}

// enter returns when c leads, or has its answer, or when ctx ends. A call that
// has no answer by then may still be run, if a leader has taken it.
func (q *queue) enter(ctx context.Context, c *call) (leads bool, err error) {
	q.mu.Lock()
	c.entered = time.Now()
	if !q.led {
		q.led = true
		q.mu.Unlock()
		return true, nil
	}
	c.wake = make(chan struct{}, 1)
	q.waiting = append(q.waiting, c)
	q.mu.Unlock()
	select {
	case <-c.wake:
		return c.leads, c.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, c); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return false, ctx.Err()
	}
	if c.leads {
		q.handOn()
	}
	return false, ctx.Err()
}

// take removes up to n calls from the front of those that wait, for a leader to run.
func (q *queue) take(n int) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := 0
	for i < min(n, len(q.waiting)) && q.waiting[i].run != nil {
		i++
	}
	taken := slices.Clone(q.waiting[:i])
	q.waiting = slices.Delete(q.waiting, 0, i)
	return taken
}

// leave ends the leading of a caller whose call is answered, and answers those
// of taken.
func (q *queue) leave(taken []*call) {
	for _, c := range taken {
		c.wake <- struct{}{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handOn()
}

// expel answers every call that has waited for longer than d with err.
func (q *queue) expel(d time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(c *call) bool {
		if c.run == nil || time.Since(c.entered) < d {
			return false
		}
		c.err = err
		c.wake <- struct{}{}
		return true
	})
}

// handOn lets the oldest that waits lead. The caller holds mu.
func (q *queue) handOn() {
	if len(q.waiting) == 0 {
		q.led = false
		return
	}
	next := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	next.leads = true
	next.wake <- struct{}{}
}
