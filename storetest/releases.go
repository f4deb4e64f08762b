package storetest

import (
	"github.com/ibid-go/ibid"
)

// A released key may be claimed at once. What it still says is what the next
// attempt must know.
var releases = []clause{
	{"a released key is claimed at once by anyone", "a reported failure could not be retried", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		r := e.state(k, ibid.Released)
		e.want(r.Lease == 0, "a released key has %v of a lease", r.Lease)
		r = e.granted(k, e.claim())
		e.want(r.Attempt == 2 && r.Vanished == 0, "claimed again, the key shows %s, want attempt 2 with nothing vanished", show(r))
	}},
	{"a released key keeps its attempts and fence", "MaxAttempts and fences would begin anew", func(e *env) {
		k, c := e.owned()
		was := e.look(k)
		e.release(k, c)
		r := e.state(k, ibid.Released)
		e.want(r.Attempt == was.Attempt && r.Fence == was.Fence && r.Generation == was.Generation, "released, the key went from %s to %s", show(was), show(r))
	}},
	{"a released key drops its fingerprint", "a caller whose request was refused could not repair it under the same key", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		r := e.state(k, ibid.Released)
		e.want(r.Fingerprint == ibid.Fingerprint{}, "released, the key shows %s", show(r))
		other := e.claim()
		other.Fingerprint = ibid.Fingerprint{0xf2}
		r = e.granted(k, other)
		e.want(r.Fingerprint == other.Fingerprint, "claimed again, the key shows %s", show(r))
	}},
	{"a released key of which an attempt vanished keeps its fingerprint", "another request could replace one whose effect is in doubt", func(e *env) {
		k, _ := e.abandoned()
		second := e.taker()
		e.granted(k, second)
		e.release(k, second)
		r := e.state(k, ibid.Released)
		e.want(r.Fingerprint == second.Fingerprint && r.Vanished == 1, "released, the key shows %s", show(r))
		other := e.taker()
		other.Fingerprint = ibid.Fingerprint{0xf2}
		e.refused(k, other, ibid.Released)
		e.granted(k, e.taker())
	}},
	{"a released key with a finished step keeps its steps and fingerprint", "another request would go on where this one stopped", func(e *env) {
		k, c := e.owned()
		e.checkpoint(k, c, "step 1")
		e.release(k, c)
		r := e.state(k, ibid.Released)
		e.want(r.Fingerprint == c.Fingerprint && string(r.Steps) == "step 1", "released, the key shows %s", show(r))
		other := e.taker()
		other.Fingerprint = ibid.Fingerprint{0xf2}
		e.refused(k, other, ibid.Released)
		r = e.granted(k, e.claim())
		e.want(string(r.Steps) == "step 1", "claimed again, the key shows %s", show(r))
	}},
	{"Release by another token frees nothing", "the key would be claimed while the work runs", func(e *env) {
		k, c := e.owned()
		e.release(k, e.claim())
		r := e.refused(k, e.claim(), ibid.InProgress)
		e.want(r.Token == c.Token, "shown %s, want the first claim", show(r))
	}},
	{"a lapsed claim may be released by its token", "work that failed late still reports that it had no effect", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		e.release(k, c)
		e.state(k, ibid.Released)
		e.granted(k, e.claim())
	}},
}
