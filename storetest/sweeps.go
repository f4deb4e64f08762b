package storetest

import (
	"errors"

	"github.com/ibid-go/ibid"
)

// A Sweeper deletes what is over, and nothing else.
var sweeps = []clause{
	{"Sweep deletes what is over", "the store would grow for ever", func(e *env) {
		for range 7 {
			e.over()
		}
		e.pass(3 * e.tick)
		n := e.sweep(1000)
		e.want(n == 7, "Sweep deleted %d records, want 7", n)
		n = e.sweep(1000)
		e.want(n == 0, "a second Sweep deleted %d records, want 0", n)
	}},
	{"Sweep keeps to its limit", "one sweep would hold up everyone", func(e *env) {
		for range 10 {
			e.over()
		}
		e.pass(3 * e.tick)
		s, ok := ability[ibid.Sweeper](e, "a Sweeper")
		if !ok {
			return
		}
		for _, want := range []int{3, 3, 3, 1, 0} {
			n, err := s.Sweep(e.ctx, 3)
			e.want(err == nil && n == want, "Sweep(3) deleted %d, %v, want %d", n, err, want)
		}
	}},
	{"Sweep with a limit of 0 deletes nothing", "a caller that asks for nothing gets nothing", func(e *env) {
		e.over()
		e.pass(3 * e.tick)
		if s, ok := ability[ibid.Sweeper](e, "a Sweeper"); ok {
			n, err := s.Sweep(e.ctx, 0)
			e.want(err == nil && n == 0, "Sweep(0) deleted %d, %v", n, err)
			n = e.sweep(10)
			e.want(n == 1, "Sweep deleted %d records, want the one that was left", n)
		}
	}},
	{"Sweep leaves what is kept", "a swept claim is claimed twice, a swept result runs again", func(e *env) {
		inProgress, _ := e.owned()
		lapsed, _ := e.abandoned()
		released, c := e.owned()
		e.release(released, c)
		completed, _ := e.completed("receipt")
		expired, c := e.owned()
		e.completeFor(expired, c, "receipt", ibid.Keep{Retain: e.tick, Remember: long})
		e.over()
		e.pass(3 * e.tick)
		n := e.sweep(1000)
		e.want(n == 1, "Sweep deleted %d records, want the one that is over", n)
		e.state(inProgress, ibid.InProgress)
		e.state(lapsed, ibid.Lapsed)
		r := e.state(released, ibid.Released)
		e.want(r.Attempt == 1, "after a sweep the released key shows %s", show(r))
		e.answers(completed, "receipt")
		e.state(expired, ibid.Expired)
	}},
	{"Sweep deletes remembered keys when they are forgotten", "expired keys would be kept for ever", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick, Remember: e.tick})
		e.pass(3 * e.tick)
		n := e.sweep(1000)
		e.want(n == 1, "Sweep deleted %d records, want 1", n)
	}},
	{"Sweep leaves what was renewed", "a list of what is over must not be trusted once it was made", func(e *env) {
		extended, c := e.key(), e.claim()
		c.Lease, c.Window = 3*e.tick, 3*e.tick
		e.granted(extended, c)
		e.extend(extended, c, long)
		completed, c2 := e.key(), e.claim()
		c2.Lease, c2.Window = 3*e.tick, 3*e.tick
		e.granted(completed, c2)
		e.complete(completed, c2, "receipt")
		reclaimed := e.over()
		e.pass(7 * e.tick)
		e.granted(reclaimed, e.claim())
		e.sweep(1000)
		e.state(extended, ibid.InProgress)
		e.answers(completed, "receipt")
		e.state(reclaimed, ibid.InProgress)
	}},
}

// A Sweeper among callers.
var sweepRaces = []clause{
	{"Sweep races with claims and deletes none", "a key that was claimed as the sweep looked would be claimed twice", func(e *env) {
		s, ok := ability[ibid.Sweeper](e, "a Sweeper")
		if !ok {
			return
		}
		keys := make([]ibid.Digest, e.target.Callers)
		claims, errs := make([]ibid.Claim, len(keys)), make([]error, len(keys))
		for i := range keys {
			keys[i], claims[i] = e.over(), e.claim()
		}
		e.pass(3 * e.tick)
		e.race(len(keys), func(i int) {
			if i%4 == 0 {
				_, errs[i] = s.Sweep(e.ctx, 5)
			}
			if errs[i] != nil {
				return
			}
			r, err := e.store.Begin(e.ctx, keys[i], claims[i])
			if err == nil && !r.OwnedBy(claims[i].Token) {
				err = errors.New("not granted: " + show(r))
			}
			if err == nil && i%2 == 0 {
				err = e.store.Complete(e.ctx, keys[i], claims[i].Token, []byte("receipt"), ibid.Keep{Retain: long})
			}
			errs[i] = err
		})
		e.sweep(1000)
		for i, k := range keys {
			e.want(errs[i] == nil, "caller %d: %v", i, errs[i])
			if i%2 == 0 {
				e.answers(k, "receipt")
			} else {
				e.state(k, ibid.InProgress)
			}
		}
	}},
}

// over claims a key that is no longer kept after three ticks.
func (e *env) over() ibid.Digest {
	k, c := e.key(), e.claim()
	c.Lease, c.Window = e.tick, e.tick
	e.granted(k, c)
	return k
}
