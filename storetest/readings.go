package storetest

import "github.com/ibid-go/ibid"

// Look, and a Begin that claims nothing, change nothing: not the window either.
var readings = []clause{
	{"Look changes no claim in progress", "a dashboard would keep claims alive, or end them", func(e *env) {
		k, _ := e.owned()
		e.undisturbed(k, func() { e.look(k) })
	}},
	{"Look changes no lapsed claim", "a look would free, or take over, what is in doubt", func(e *env) {
		k, c := e.abandoned()
		e.undisturbed(k, func() { e.look(k) })
		e.complete(k, c, "receipt")
	}},
	{"Look changes no released key", "a look would count as an attempt", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		e.undisturbed(k, func() { e.look(k) })
	}},
	{"Look changes no completed key", "a look would keep results longer", func(e *env) {
		k, _ := e.completed("receipt")
		e.undisturbed(k, func() { e.look(k) })
	}},
	{"Look makes no record", "a look would fill the store, or claim the key", func(e *env) {
		k := e.key()
		e.unset(e.look(k))
		e.unset(e.look(k))
		r := e.granted(k, e.claim())
		e.want(r.Attempt == 1, "after a look, the first claim shows %s", show(r))
	}},
	{"a Begin that finds a claim in progress changes nothing", "duplicates would keep the claim of a dead process alive", func(e *env) {
		k, _ := e.owned()
		e.undisturbed(k, func() { e.refused(k, e.loser(), ibid.InProgress) })
	}},
	{"a Begin that finds another request in progress changes nothing", "whoever misuses a key would harm who uses it", func(e *env) {
		k, _ := e.owned()
		c := e.loser()
		c.Fingerprint, c.MaxTakeovers = ibid.Fingerprint{0xf2}, -1
		e.undisturbed(k, func() { e.refused(k, c, ibid.InProgress) })
	}},
	{"a Begin that may not take over changes nothing", "asking would count as vanishing", func(e *env) {
		k, c := e.abandoned()
		e.undisturbed(k, func() { e.refused(k, e.loser(), ibid.Lapsed) })
		e.complete(k, c, "receipt")
	}},
	{"a Begin refused over its fingerprint changes no lapsed claim", "another request would push the window of a doubtful one", func(e *env) {
		k, c := e.abandoned()
		other := e.loser()
		other.Fingerprint, other.MaxTakeovers = ibid.Fingerprint{0xf2}, -1
		e.undisturbed(k, func() { e.refused(k, other, ibid.Lapsed) })
		e.complete(k, c, "receipt")
	}},
	{"a Begin beyond MaxAttempts changes nothing", "asking would count as an attempt", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		again := e.loser()
		again.MaxAttempts = 1
		e.undisturbed(k, func() { e.refused(k, again, ibid.Released) })
	}},
	{"a Begin that replays changes nothing", "a replay that writes costs what a claim costs", func(e *env) {
		k, _ := e.completed("receipt")
		e.undisturbed(k, func() { e.refused(k, e.loser(), ibid.Completed) })
	}},
	{"a Begin that finds an expired key changes nothing", "asking would keep the key for ever", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick, Remember: long})
		e.pass(2 * e.tick)
		e.undisturbed(k, func() { e.refused(k, e.loser(), ibid.Expired) })
	}},
}

// loser returns a claim that would show everywhere if it were kept.
func (e *env) loser() ibid.Claim {
	c := e.claim()
	c.Scope, c.Label = ibid.Digest{0xee}, []byte("loser")
	c.Lease, c.Window = 3*long, 3*long
	return c
}

// undisturbed fails the case unless f leaves the record at k as it was.
func (e *env) undisturbed(k ibid.Digest, f func()) {
	was := e.look(k)
	e.pass(2 * e.tick)
	f()
	e.unchanged(k, was, 2*e.tick)
}
