package storetest

import (
	"github.com/ibid-go/ibid"
)

// Verbs whose first reply was lost, and which are asked again.
var replies = []clause{
	{"Begin asked again says yours", "a caller whose reply was lost would wait for itself", func(e *env) {
		k, c := e.owned()
		first := e.look(k)
		r := e.granted(k, c)
		e.want(r.Attempt == 1 && r.Vanished == 0 && r.Fence == first.Fence, "asked again, Begin shows %s, want attempt 1 with fence %d", show(r), first.Fence)
	}},
	{"Begin asked again grants a fresh lease", "the caller believes in a lease that began when it asked last", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = 10 * e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		c.Lease = long
		r := e.granted(k, c)
		e.near("Lease", r.Lease, long)
		e.near("Window", r.Window, 2*long)
	}},
	{"Begin asked again after the lease lapsed says yours", "nobody took over: refusing strands the key", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		c.Lease = long
		r := e.granted(k, c)
		e.want(r.Attempt == 1 && r.Vanished == 0, "asked again, Begin shows %s, want attempt 1 with nothing vanished", show(r))
	}},
	{"Begin asked again is not bound by limits", "the claim already stands within them", func(e *env) {
		k, _ := e.abandoned()
		c := e.taker()
		e.granted(k, c)
		c.MaxTakeovers, c.MaxAttempts = 0, 1
		r := e.granted(k, c)
		e.want(r.Attempt == 2 && r.Vanished == 1, "asked again, Begin shows %s, want attempt 2 after 1 vanished", show(r))
	}},
	{"Begin asked again after a takeover is not yours", "two owners run the work twice", func(e *env) {
		k, c := e.abandoned()
		next := e.taker()
		e.granted(k, next)
		r := e.refused(k, c, ibid.InProgress)
		e.want(r.Token == next.Token, "shown %s, want the claim that took over", show(r))
	}},
	{"Begin asked again after Complete answers the result", "a duplicated packet would run the work again", func(e *env) {
		k, c := e.completed("receipt")
		c.MaxTakeovers = -1
		r := e.refused(k, c, ibid.Completed)
		e.want(string(r.Result) == "receipt", "the result is %q", r.Result)
	}},
	{"Complete asked again with the same result succeeds", "a success would be reported as a lost claim", func(e *env) {
		k, c := e.completed("receipt")
		e.complete(k, c, "receipt")
		e.answers(k, "receipt")
	}},
	{"Complete asked again changes nothing", "a retry would keep the result longer than was promised", func(e *env) {
		k, c := e.completed("receipt")
		was := e.look(k)
		e.pass(2 * e.tick)
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: 2 * long, Remember: long})
		e.unchanged(k, was, 2*e.tick)
	}},
	{"Complete asked again with another result is lost", "two callers would be given two answers", func(e *env) {
		k, c := e.completed("receipt 1")
		e.loseComplete(k, c.Token, "receipt 2")
		e.loseComplete(k, c.Token, "receipt 1 ")
		e.loseComplete(k, c.Token, "receipt")
		e.loseComplete(k, c.Token, "")
		e.answers(k, "receipt 1")
	}},
	{"Complete by another token is lost, with the same result too", "whoever lost the claim must learn it", func(e *env) {
		k, c := e.completed("receipt")
		e.loseComplete(k, ibid.NewToken(), "receipt")
		r := e.answers(k, "receipt")
		e.want(r.Token == c.Token, "the record shows %s, want the token that completed it", show(r))
	}},
	{"Release asked again succeeds", "a lost reply would be reported as a failure", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		e.release(k, c)
		e.state(k, ibid.Released)
	}},
	{"Release asked again does not free the next claim", "the next owner would lose its claim to a late packet", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		next := e.claim()
		e.granted(k, next)
		e.release(k, c)
		r := e.state(k, ibid.InProgress)
		e.want(r.Token == next.Token, "shown %s, want the next claim", show(r))
	}},
	{"Release after Complete changes nothing", "a recorded result must never run again", func(e *env) {
		k, c := e.completed("receipt")
		was := e.look(k)
		e.release(k, c)
		e.unchanged(k, was, 0)
	}},
	{"Release of an absent key makes no record", "a late packet would fill the store", func(e *env) {
		k := e.key()
		e.release(k, e.claim())
		e.unset(e.look(k))
	}},
}
