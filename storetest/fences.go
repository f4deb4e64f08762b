package storetest

import (
	"time"

	"github.com/ibid-go/ibid"
)

// The fence grows with every claim of a key, also across windows, and is not
// below the store's clock in microseconds.
var fences = []clause{
	{"the fence grows over releases", "a downstream that compares fences would let a zombie through", func(e *env) {
		k := e.key()
		var last int64
		for range 50 {
			c := e.claim()
			r := e.granted(k, c)
			e.want(r.Fence > last, "the fence went from %d to %d", last, r.Fence)
			last = r.Fence
			e.release(k, c)
		}
	}},
	{"the fence grows over takeovers", "a downstream that compares fences would let a zombie through", func(e *env) {
		k := e.key()
		var last int64
		for range 50 {
			c := e.taker()
			r := e.granted(k, c)
			e.want(r.Fence > last, "the fence went from %d to %d", last, r.Fence)
			last = r.Fence
			e.extend(k, c, 0)
		}
	}},
	{"the fence grows over windows", "the zombie of one window would pass for the owner of the next", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = e.tick, e.tick
		first := e.granted(k, c)
		e.pass(3 * e.tick)
		r := e.granted(k, e.claim())
		e.want(r.Fence > first.Fence, "the fence went from %d to %d", first.Fence, r.Fence)
	}},
	{"the fence grows over a sweep", "what a sweep deletes must not start the fence again", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = e.tick, e.tick
		first := e.granted(k, c)
		e.pass(3 * e.tick)
		e.sweep(1000)
		r := e.granted(k, e.claim())
		e.want(r.Fence > first.Fence, "the fence went from %d to %d", first.Fence, r.Fence)
	}},
	{"the fence grows over Forget", "the owner that was forgotten still runs", func(e *env) {
		k, c := e.owned()
		first := e.look(k)
		e.forget(k, c.Token, long)
		r := e.granted(k, e.claim())
		e.want(r.Fence > first.Fence, "the fence went from %d to %d", first.Fence, r.Fence)
	}},
	{"the fence keeps up with the clock", "a record that was lost or purged would start below the fences it gave", func(e *env) {
		k1, _ := e.owned()
		first := e.look(k1)
		e.pass(5 * e.tick)
		k2, _ := e.owned()
		r := e.look(k2)
		passed := int64(5 * e.tick / time.Microsecond)
		e.want(r.Fence >= first.Fence+passed-1, "after %v the fence of a new key went from %d to %d, want %d more", 5*e.tick, first.Fence, r.Fence, passed)
	}},
	{"the fence stays while a claim stands", "a downstream would refuse the owner's own second call", func(e *env) {
		k, c := e.owned()
		first := e.look(k)
		e.pass(e.tick)
		e.extend(k, c, long)
		e.granted(k, c)
		e.complete(k, c, "receipt")
		r := e.look(k)
		e.want(r.Fence == first.Fence, "the fence went from %d to %d", first.Fence, r.Fence)
	}},
}

// sweep sweeps until nothing is left, at most limit at a time, and returns how
// many records were deleted.
func (e *env) sweep(limit int) (deleted int) {
	s, ok := ability[ibid.Sweeper](e, "a Sweeper")
	for ok {
		n, err := s.Sweep(e.ctx, limit)
		if err != nil {
			e.failf("Sweep: %w", err)
			return deleted
		}
		deleted += n
		ok = n >= limit
	}
	return deleted
}

func (e *env) forget(k ibid.Digest, token ibid.Token, window time.Duration) {
	if s, ok := ability[ibid.Inspector](e, "an Inspector"); ok {
		if err := s.Forget(e.ctx, k, token, window); err != nil {
			e.failf("Forget: %w", err)
		}
	}
}

func (e *env) loseForget(k ibid.Digest, token ibid.Token) {
	if s, ok := ability[ibid.Inspector](e, "an Inspector"); ok {
		e.lost("Forget", s.Forget(e.ctx, k, token, long))
	}
}
