package ibid

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Waiting, as a policy: of the calls of one process that ask for the same under
// the same key and may wait, one leads. Only the leader asks the store: it
// claims and runs, or polls until the claim that stands has ended. The others
// wait for what the leader learns. A leader that has nothing to tell, because
// it released, was refused, was cancelled or ran out of time, hands the lead
// on. So a storm on one key costs the store one call at a time.

// flights are the keys that calls of this process wait for.
type flights struct {
	mu      sync.Mutex
	m       map[flightKey]*flight
	waiting int         // calls that do not lead, and those that lead and poll
	some    atomic.Bool // false: m is empty
}

type flightKey struct {
	key         Digest
	fingerprint Fingerprint
}

type flight struct {
	calls int           // calls in the flight
	lead  chan struct{} // capacity 1; full when nobody leads
	poked chan struct{} // capacity 1; full when something ended in this process
	done  chan struct{} // closed when rec is set
	rec   Record        // a completed or expired record
}

// wait is Do for a call that may wait.
func (e *Engine) wait(ctx context.Context, op *operation, work Work) ([]byte, Outcome, error) {
	f, ok := e.flights.join(op, e.opts.MaxWaiters)
	if !ok {
		return e.answer(ctx, op, Record{State: InProgress, Fingerprint: op.fingerprint})
	}
	defer e.flights.leave(op, f)
	began := time.Now()
	timer := time.NewTimer(max(op.policy.Wait, 0))
	defer timer.Stop()
	select { // who need not wait leads, also without any patience
	case <-f.lead:
		return e.takeLead(ctx, op, f, work, began)
	default:
	}
	if op.policy.Wait <= 0 {
		return e.busy(ctx, op)
	}
	select {
	case <-f.lead:
		return e.takeLead(ctx, op, f, work, began)
	case <-f.done:
		e.waited(ctx, op, began)
		rec := f.rec
		rec.Result = bytes.Clone(rec.Result) // each caller's own
		return e.answer(ctx, op, rec)
	case <-timer.C:
		e.waited(ctx, op, began)
		return e.answer(ctx, op, Record{State: InProgress, Fingerprint: op.fingerprint})
	case <-ctx.Done():
		return e.refuse(ctx, op, work, ctx.Err())
	}
}

func (e *Engine) takeLead(ctx context.Context, op *operation, f *flight, work Work, began time.Time) ([]byte, Outcome, error) {
	e.flights.count(-1)
	defer e.flights.count(+1)
	defer func() { f.lead <- struct{}{} }() // nobody else puts one in while this call leads
	if op.tx != nil {
		return e.doTx(ctx, op, work, began)
	}
	return e.lead(ctx, op, f, work, began)
}

// busy answers a call that waits for nothing while another of this process
// leads: in progress, unless a result is there already.
func (e *Engine) busy(ctx context.Context, op *operation) ([]byte, Outcome, error) {
	rec, err := e.lookFor(ctx, op)
	if err != nil || rec.State != Completed && rec.State != Expired {
		rec = Record{State: InProgress, Fingerprint: op.fingerprint}
	}
	return e.answer(ctx, op, rec)
}

// lead asks the store until it has an answer for op, and hands the lead on
// unless that answer is everybody's.
func (e *Engine) lead(ctx context.Context, op *operation, f *flight, work Work, began time.Time) ([]byte, Outcome, error) {
	asked := false
	for {
		if e.gate.closed() {
			return e.drained(ctx, op)
		}
		a, rec, err := e.begin(ctx, op)
		if asked {
			e.waited(ctx, op, began)
		}
		switch {
		case err != nil:
			return e.refuse(ctx, op, work, err)
		case a != nil:
			return e.run(a, work)
		case rec.State != InProgress || rec.Fingerprint != op.fingerprint:
			e.flights.publish(op.digest, rec)
			return e.answer(ctx, op, rec)
		}
		if !e.flights.mayWait(e.opts.MaxWaiters) {
			return e.answer(ctx, op, rec)
		}
		asked = true
		rec, err = e.poll(ctx, op, f, rec, op.policy.Wait-time.Since(began))
		e.flights.count(-1)
		switch {
		case err != nil:
			return e.refuse(ctx, op, work, err)
		case rec.State == InProgress, rec.State == Completed, rec.State == Expired:
			e.flights.publish(op.digest, rec)
			e.waited(ctx, op, began)
			return e.answer(ctx, op, rec)
		}
	}
}

// Bounds of the pauses between two polls.
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = time.Second
)

// poll looks at the key until its claim has ended or limit is over, and
// returns what stood there last. It is woken by the store, if the store can,
// and by the end of an attempt in this process; the pauses in between are the
// floor.
func (e *Engine) poll(ctx context.Context, op *operation, f *flight, rec Record, limit time.Duration) (Record, error) {
	end := time.NewTimer(limit)
	defer end.Stop()
	var changed <-chan struct{}
	if n, ok := As[Notifier](e.store); ok {
		c, stop, err := n.Watch(ctx, op.digest)
		if err == nil {
			changed = c
			defer stop()
		}
	}
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		next := time.NewTimer(min(jitter(pause), max(rec.Lease, time.Millisecond)))
		select {
		case <-end.C:
			next.Stop()
			return rec, nil
		case <-ctx.Done():
			next.Stop()
			return rec, ctx.Err()
		case <-changed:
			changed = nil // a wake is for one change; polling goes on
		case <-f.poked:
		case <-next.C:
		}
		next.Stop()
		seen, err := e.lookFor(ctx, op)
		if err != nil {
			return rec, err
		}
		rec = seen
		if rec.State != InProgress {
			return rec, nil
		}
	}
}

// lookFor is look for a caller that may go away meanwhile.
func (e *Engine) lookFor(ctx context.Context, op *operation) (Record, error) {
	limit := bound(ctx, e.opts.StoreTimeout)
	defer limit.end()
	rec, err := e.store.Look(limit, op.digest)
	if err != nil {
		if ctx.Err() != nil {
			return rec, ctx.Err()
		}
		e.emit(ctx, Event{Kind: EventStoreError, Verb: "look", Key: op.digest, Scope: op.scope, Err: err})
		return rec, &StoreError{Verb: "look", Err: err}
	}
	return rec, nil
}

func (e *Engine) waited(ctx context.Context, op *operation, began time.Time) {
	e.emit(ctx, Event{Kind: EventWaited, Key: op.digest, Scope: op.scope, Took: time.Since(began)})
}

// join enters the flight of op, or opens one; false when as many calls wait as
// may.
func (fs *flights) join(op *operation, maxWaiting int) (*flight, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	k := flightKey{op.digest, op.fingerprint}
	f := fs.m[k]
	switch {
	case f == nil:
		if fs.m == nil {
			fs.m = make(map[flightKey]*flight)
		}
		f = &flight{lead: make(chan struct{}, 1), poked: make(chan struct{}, 1), done: make(chan struct{})}
		f.lead <- struct{}{}
		fs.m[k] = f
		fs.some.Store(true)
	case fs.waiting >= maxWaiting:
		return nil, false
	}
	f.calls++
	fs.waiting++
	return f, true
}

func (fs *flights) leave(op *operation, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.waiting--
	f.calls--
	k := flightKey{op.digest, op.fingerprint}
	if f.calls == 0 && fs.m[k] == f {
		fs.remove(k)
	}
}

func (fs *flights) remove(k flightKey) {
	delete(fs.m, k)
	fs.some.Store(len(fs.m) > 0)
}

// mayWait counts a call that leads as one that waits; false when as many wait as may.
func (fs *flights) mayWait(maxWaiting int) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.waiting >= maxWaiting {
		return false
	}
	fs.waiting++
	return true
}

// count moves a call between those that wait and the one that leads.
func (fs *flights) count(n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.waiting += n
}

// publish gives a record that stays as it is to everyone in the flight of its
// fingerprint, and closes the flight to others.
func (fs *flights) publish(key Digest, rec Record) {
	if rec.State != Completed && rec.State != Expired || !fs.some.Load() {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	k := flightKey{key, rec.Fingerprint}
	if f := fs.m[k]; f != nil {
		f.rec = rec
		close(f.done)
		fs.remove(k)
	}
}

// poke wakes the leader of a flight: an attempt of this process has ended.
func (fs *flights) poke(key Digest, fingerprint Fingerprint) {
	if !fs.some.Load() {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.m[flightKey{key, fingerprint}]; f != nil {
		select {
		case f.poked <- struct{}{}:
		default:
		}
	}
}
