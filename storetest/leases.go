package storetest

import (
	"time"

	"github.com/ibid-go/ibid"
)

// How long a claim holds, and what can still be done after it lapsed.
var leases = []clause{
	{"a claim lapses when its lease is over", "the key of a dead process would be in progress for ever", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		r := e.state(k, ibid.Lapsed)
		e.want(r.Lease == 0, "a lapsed claim has %v of its lease left", r.Lease)
		e.want(r.Token == c.Token && r.Attempt == 1 && r.Vanished == 0, "a lapsed claim shows %s", show(r))
	}},
	{"Extend lets a claim hold from now on", "work longer than one lease would run twice", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = 6 * e.tick
		e.granted(k, c)
		e.pass(e.tick)
		e.extend(k, c, long)
		r := e.state(k, ibid.InProgress)
		e.near("Lease", r.Lease, long)
		e.near("Window", r.Window, long+c.Window)
		e.pass(6 * e.tick)
		e.refused(k, e.taker(), ibid.InProgress)
	}},
	{"Extend may shorten a lease", "a caller says how long it wants the claim, not how much more", func(e *env) {
		k, c := e.owned()
		e.extend(k, c, e.tick)
		e.pass(2 * e.tick)
		r := e.state(k, ibid.Lapsed)
		e.near("Window", r.Window, c.Window-e.tick)
	}},
	{"Extend after the lease lapsed renews it while nobody took over", "the work still runs: letting go of it runs it twice", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		e.extend(k, c, long)
		r := e.state(k, ibid.InProgress)
		e.want(r.OwnedBy(c.Token) && r.Attempt == 1, "renewed, the claim shows %s", show(r))
		e.refused(k, e.taker(), ibid.InProgress)
	}},
	{"a lease of 0 gives the claim up", "waiters would sit out the lease of work that is known to have vanished", func(e *env) {
		k, c := e.owned()
		e.extend(k, c, 0)
		r := e.state(k, ibid.Lapsed)
		e.want(r.Token == c.Token && r.Fingerprint == c.Fingerprint, "given up, the claim shows %s", show(r))
		e.near("Window", r.Window, c.Window)
	}},
	{"a negative lease gives the claim up", "a lease computed from a deadline that has passed must not shorten the window", func(e *env) {
		k, c := e.owned()
		e.extend(k, c, -2*long)
		r := e.state(k, ibid.Lapsed)
		e.near("Window", r.Window, c.Window)
	}},
	{"giving up frees nothing", "given up says that the effect is in doubt, released that there was none", func(e *env) {
		k, c := e.abandoned()
		e.refused(k, e.claim(), ibid.Lapsed)
		r := e.look(k)
		e.want(r.Token == c.Token, "given up, the claim shows %s", show(r))
		next := e.taker()
		r = e.granted(k, next)
		e.want(r.Vanished == 1, "the takeover shows %s, want 1 vanished", show(r))
	}},
	{"giving up twice is giving up", "the reply of the first may have been lost", func(e *env) {
		k, c := e.abandoned()
		e.extend(k, c, 0)
		e.state(k, ibid.Lapsed)
	}},
	{"a claim that was given up may still be completed", "an operator resolves a doubtful outcome that way", func(e *env) {
		k, c := e.abandoned()
		e.complete(k, c, "receipt")
		e.answers(k, "receipt")
	}},
	{"a claim that was given up may still be released", "an operator who knows that nothing happened frees the key that way", func(e *env) {
		k, c := e.abandoned()
		e.release(k, c)
		r := e.granted(k, e.claim())
		e.want(r.Attempt == 2 && r.Vanished == 0, "claimed again, the key shows %s, want attempt 2 with nothing vanished", show(r))
	}},
	{"a lapsed claim may still be completed", "the work is done, and forgetting it runs it twice", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		e.complete(k, c, "late receipt")
		r := e.answers(k, "late receipt")
		e.want(r.Attempt == 1 && r.Vanished == 0, "completed late, the record shows %s", show(r))
	}},
	{"the lease ends to the clock's resolution", "an owner that trusts its lease acts while another does", func(e *env) {
		if !e.fake() {
			return
		}
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(e.tick - e.target.Resolution)
		r := e.refused(k, e.taker(), ibid.InProgress)
		e.want(r.Lease > 0 && r.Lease <= e.target.Resolution, "just before its end the lease is %v", r.Lease)
		e.pass(e.target.Resolution)
		e.state(k, ibid.Lapsed)
		e.granted(k, e.taker())
	}},
	{"an extended lease ends to the clock's resolution", "renewal must grant exactly what was asked for", func(e *env) {
		if !e.fake() {
			return
		}
		k, c := e.owned()
		e.pass(e.tick / 2)
		e.extend(k, c, e.tick)
		e.pass(e.tick - e.target.Resolution)
		e.state(k, ibid.InProgress)
		e.pass(e.target.Resolution)
		e.state(k, ibid.Lapsed)
	}},
	{"a century does not overflow", "a lease in the past is no lease, a window in the past no record", func(e *env) {
		const century = 100 * 365 * 24 * time.Hour
		k, c := e.key(), e.claim()
		c.Lease, c.Window = century, century
		e.granted(k, c)
		r := e.state(k, ibid.InProgress)
		e.near("Lease", r.Lease, century)
		e.extend(k, c, century)
		r = e.state(k, ibid.InProgress)
		e.near("Window", r.Window, 2*century)
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: century, Remember: century})
		r = e.answers(k, "receipt")
		e.near("Window", r.Window, century)
	}},
}
