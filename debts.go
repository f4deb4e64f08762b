package ibid

import (
	"context"
	"errors"
	"sync"
	"time"
)

// debts are the calls of the store that must still be made after their callers
// were answered: results that were not acknowledged, and claims that could not
// be released. One goroutine pays them, in turn and with back-off, so that a
// store that comes back is not met by a crowd; it ends when nothing is owed.
type debts struct {
	mu     sync.Mutex
	owed   []debt
	paying chan struct{} // closed when the paying goroutine has ended; nil when there is none
}

type debt struct {
	key   Digest
	verb  string
	pay   func(context.Context) error
	until time.Time // RecordTimeout is over
}

// oweRelease frees the claim of token, which nothing has run under.
func (e *Engine) oweRelease(key Digest, token Token) {
	e.owe(key, "release", func(ctx context.Context) error { return e.store.Release(ctx, key, token) })
}

// oweNow tries once, and owes what the store does not acknowledge.
func (e *Engine) oweNow(a *attempt, verb string, pay func(context.Context) error) {
	err := e.once(a.parent, pay)
	if err == nil {
		return
	}
	ev := a.event(EventStoreError)
	ev.Verb, ev.Err = verb, err
	e.emit(a, ev)
	e.owe(a.Key, verb, pay)
}

// once calls pay once, within StoreTimeout and whatever becomes of ctx.
func (e *Engine) once(ctx context.Context, pay func(context.Context) error) error {
	limit := boundDetached(ctx, e.opts.StoreTimeout)
	defer limit.end()
	return pay(limit)
}

// owe makes sure that pay is called until it returns nil, RecordTimeout is over, or
// more is owed than MaxPending.
func (e *Engine) owe(key Digest, verb string, pay func(context.Context) error) {
	d := &e.debts
	d.mu.Lock()
	if len(d.owed) >= e.opts.MaxPending {
		d.mu.Unlock()
		e.emit(context.Background(), Event{Kind: EventDropped, Key: key, Verb: verb, Err: errTooMuchOwed})
		return
	}
	d.owed = append(d.owed, debt{key, verb, pay, time.Now().Add(e.opts.RecordTimeout)})
	if d.paying == nil {
		d.paying = make(chan struct{})
		go e.payDebts(d.paying)
	}
	d.mu.Unlock()
}

var errTooMuchOwed = errors.New("more is owed to the store than Options.MaxPending")

func (e *Engine) payDebts(ended chan struct{}) {
	defer close(ended)
	ctx := context.Background()
	pause := 10 * time.Millisecond
	for {
		next, ok := e.debts.first()
		if !ok {
			return
		}
		err := e.once(ctx, next.pay)
		switch {
		case err == nil:
			e.debts.drop(false)
			pause = 10 * time.Millisecond
			continue
		case !time.Now().Before(next.until):
			e.debts.drop(false)
			e.emit(ctx, Event{Kind: EventDropped, Key: next.key, Verb: next.verb, Err: err})
			continue
		}
		e.emit(ctx, Event{Kind: EventStoreError, Key: next.key, Verb: next.verb, Err: err})
		e.debts.drop(true)
		time.Sleep(jitter(pause))
		pause = min(2*pause, 2*time.Second)
	}
}

// first returns the debt that is due, and false, with paying reset, when nothing
// is owed.
func (d *debts) first() (debt, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.owed) == 0 {
		d.owed, d.paying = nil, nil
		return debt{}, false
	}
	return d.owed[0], true
}

// drop takes the first debt off, or puts it last.
func (d *debts) drop(last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := d.owed[0]
	d.owed[0] = debt{}
	d.owed = d.owed[1:]
	if last {
		d.owed = append(d.owed, first)
	}
}

// wait returns when nothing is owed, or with ctx's error.
func (d *debts) wait(ctx context.Context) error {
	for {
		d.mu.Lock()
		paying := d.paying
		d.mu.Unlock()
		if paying == nil {
			return nil
		}
		select {
		case <-paying:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
