package ibidclient

import (
	"context"
	"math/rand/v2"
	"time"
)

// The bounds: the window of the server, the attempts, the total time, the
// caller's context and the retry budget. Whichever is reached first ends the
// operation, before a wait rather than after it.

// delay is how long to wait before the next attempt. A connection that broke
// after it had been idle says little of the server: the first time, the next
// attempt is made at once.
func (op *operation) delay(broken bool) time.Duration {
	o := &op.t.options
	switch {
	case broken && !op.hurried:
		op.hurried = true
		return 0
	case op.wait > 0:
		return op.wait + rand.N(op.wait/10+1)
	case o.BaseDelay < 0:
		return 0
	}
	top := o.MaxDelay
	if doubled := op.attempts - 1; doubled < 30 && o.BaseDelay<<doubled>>doubled == o.BaseDelay {
		top = min(top, o.BaseDelay<<doubled)
	}
	return rand.N(max(top, 0) + 1)
}

// stop returns why there is no attempt after wait; nil when there is one.
func (op *operation) stop(wait time.Duration) error {
	o := &op.t.options
	next := time.Now().Add(wait)
	deadline, bounded := op.Deadline()
	switch {
	case !op.end.IsZero() && !next.Before(op.end):
		return ErrWindowOver
	case op.source.kind == sourceOnce:
		return ErrSentOnce
	case o.Attempts > 0 && op.attempts >= o.Attempts:
		return ErrExhausted
	case o.TotalTime > 0 && next.Sub(op.start) >= o.TotalTime:
		return ErrExhausted
	case bounded && !next.Before(deadline):
		return context.DeadlineExceeded
	case !op.t.budget.take(o.Budget):
		return ErrBudget
	}
	return nil
}

// sleep waits, and returns the error of the context if that ends first.
func (op *operation) sleep(d time.Duration) error {
	if d <= 0 {
		return op.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-op.Done():
		return op.Err()
	}
}

// limit is how long the next attempt may take; 0 is no limit.
func (op *operation) limit() time.Duration {
	o := &op.t.options
	limit := max(o.AttemptTimeout, 0)
	shorten := func(left time.Duration) {
		if limit == 0 || left < limit {
			limit = max(left, 1)
		}
	}
	now := op.start
	if op.attempts > 0 {
		now = time.Now()
	}
	if o.TotalTime > 0 {
		shorten(o.TotalTime - now.Sub(op.start))
	}
	if !op.end.IsZero() {
		shorten(op.end.Sub(now))
	}
	return limit
}

// usable is the part of a server's window in which attempts are begun: the
// last of them takes some time to arrive.
func usable(window time.Duration) time.Duration {
	return window - min(window/20, 30*time.Second)
}
