package ibid

import (
	"errors"
	"time"
)

// Renewing, as a policy:
//
//   - A lease is renewed at a third of it, as long as the work runs and until
//     MaxRun is over. Then the work is cancelled and the lease left to end.
//   - A claim that the store says is lost cancels the work.
//   - Where another may take over (Retry, Probe), so does a lease that could
//     not be renewed in time, a tenth of it before its end by this process's
//     own clock. Under Refuse nobody takes over, and an outage of the store
//     cancels nothing.
//   - What runs does so until the work has returned and the last renewal has
//     ended: no renewal is under way when the result is recorded.

// startRenewing arms the first renewal. Work that ends before it is due costs a
// timer and no goroutine.
func (a *attempt) startRenewing() {
	a.timer = time.AfterFunc(a.op.policy.Lease/3, a.renewing)
}

func (a *attempt) renewing() {
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return
	}
	a.stop, a.stopped = make(chan struct{}), make(chan struct{})
	a.mu.Unlock()
	defer close(a.stopped)
	a.renew()
}

// stopRenewing returns when no renewal is under way and none will begin. A
// renewal that was sent is waited for, and not cancelled: many clients can
// cancel a request only by dropping the connection.
func (a *attempt) stopRenewing() {
	a.mu.Lock()
	ended := a.ended
	a.ended = true
	a.mu.Unlock()
	if ended {
		return
	}
	if !a.timer.Stop() && a.stop != nil {
		close(a.stop)
		<-a.stopped
	}
}

// renew renews the lease until the work has ended, MaxRun is over or the claim is lost.
func (a *attempt) renew() {
	lease := a.op.policy.Lease
	taken := a.op.policy.Takeover != Refuse // another may take over
	held := a.claimedAt.Add(lease)          // by this process's clock, the lease ends no earlier
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-timer.C:
		}
		now := time.Now()
		if !now.Before(a.deadline) {
			a.cancelWork(ErrMaxRun)
			return
		}
		limit := min(a.engine.opts.StoreTimeout, a.deadline.Sub(now))
		early := held.Add(-lease / 10)
		if taken {
			if !now.Before(early) {
				a.cancelWork(ErrClaimLost)
				return
			}
			limit = min(limit, early.Sub(now))
		}
		err := a.extend(limit)
		next := lease / 3
		switch {
		case err == nil:
			held = now.Add(lease)
		case errors.Is(err, ErrClaimLost):
			a.cancelWork(ErrClaimLost)
			return
		default:
			next = lease / 10
			ev := a.event(EventStoreError)
			ev.Verb, ev.Err = "extend", err
			a.engine.emit(a, ev)
		}
		due := now.Add(next)
		if taken && due.After(held.Add(-lease/10)) {
			due = held.Add(-lease / 10)
		}
		if due.After(a.deadline) {
			due = a.deadline
		}
		timer.Reset(time.Until(due))
	}
}

func (a *attempt) extend(limit time.Duration) error {
	ctx := boundDetached(a.parent, limit)
	defer ctx.end()
	return a.engine.store.Extend(ctx, a.Key, a.Token, a.op.policy.Lease)
}
