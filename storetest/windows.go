package storetest

import (
	"github.com/ibid-go/ibid"
)

// How long a record is kept. One that is over is absent, purged or not.
var windows = []clause{
	{"a result is kept for Retain from its completion", "work longer than the window would be forgotten as it ends", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = 2*e.tick, 2*e.tick
		e.granted(k, c)
		e.pass(e.tick)
		e.complete(k, c, "receipt")
		r := e.answers(k, "receipt")
		e.near("Window", r.Window, long)
		e.pass(5 * e.tick)
		e.answers(k, "receipt")
	}},
	{"a result may be kept for less than the claim", "Retain says how long, not the claim before it", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick})
		e.pass(2 * e.tick)
		e.unset(e.look(k))
	}},
	{"a result is kept to the clock's resolution", "one instant more or less, and stores disagree about a retry at the edge", func(e *env) {
		if !e.fake() {
			return
		}
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick})
		e.pass(e.tick - e.target.Resolution)
		r := e.answers(k, "receipt")
		e.want(r.Window > 0 && r.Window <= e.target.Resolution, "just before its end the window is %v", r.Window)
		e.pass(e.target.Resolution)
		e.unset(e.look(k))
	}},
	{"a key is remembered to the clock's resolution", "an expired key is refused, then new: never both, never neither", func(e *env) {
		if !e.fake() {
			return
		}
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick, Remember: e.tick})
		e.pass(e.tick - e.target.Resolution)
		e.answers(k, "receipt")
		e.pass(e.target.Resolution)
		r := e.state(k, ibid.Expired)
		e.near("Window", r.Window, e.tick)
		e.pass(e.tick - e.target.Resolution)
		e.refused(k, e.taker(), ibid.Expired)
		e.pass(e.target.Resolution)
		e.unset(e.look(k))
		e.granted(k, e.claim())
	}},
	{"an uncompleted claim outlives its lease by the window, to the clock's resolution", "a doubtful outcome would be forgotten, and the work run again", func(e *env) {
		if !e.fake() {
			return
		}
		k, c := e.key(), e.claim()
		c.Lease, c.Window = e.tick, 2*e.tick
		e.granted(k, c)
		e.pass(3*e.tick - e.target.Resolution)
		e.refused(k, e.claim(), ibid.Lapsed)
		e.pass(e.target.Resolution)
		e.unset(e.look(k))
		e.granted(k, e.claim())
	}},
	{"an extended claim outlives its new lease by the window", "renewed work would be forgotten while it runs", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = 2*e.tick, 10*e.tick
		e.granted(k, c)
		e.extend(k, c, 10*e.tick)
		e.pass(13 * e.tick)
		e.refused(k, e.claim(), ibid.Lapsed)
	}},
	{"an expired key is refused, without its result", "the caller would run again what was done, or be given what is no longer kept", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick, Remember: long})
		e.pass(2 * e.tick)
		r := e.refused(k, e.taker(), ibid.Expired)
		e.want(r.Result == nil, "an expired key shows the result %q", r.Result)
		e.want(r.Fingerprint == c.Fingerprint, "an expired key shows %s, want its fingerprint", show(r))
		e.near("Window", r.Window, long-e.tick)
		r = e.state(k, ibid.Expired)
		e.want(r.Result == nil, "an expired key shows the result %q", r.Result)
	}},
	{"negative Remember forgets when Retain is over", "it must not cut the window short", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: long, Remember: -2 * long})
		r := e.answers(k, "receipt")
		e.near("Window", r.Window, long)
	}},
	{"a key whose window is over is new", "what is left of the last window must not bear on the next", func(e *env) {
		k, c := e.key(), e.claim()
		e.granted(k, c)
		e.extend(k, c, 0)
		second := e.taker()
		second.Lease, second.Window, second.Label = e.tick, e.tick, []byte("last window")
		e.granted(k, second)
		e.pass(3 * e.tick)
		e.unset(e.look(k))
		next := e.claim()
		next.Fingerprint, next.MaxAttempts = ibid.Fingerprint{0xf2}, 1
		r := e.granted(k, next)
		e.want(r.Attempt == 1 && r.Vanished == 0 && r.Generation == 0 && len(r.Label) == 0, "a new key shows %s", show(r))
	}},
	{"a completed key whose window is over is new", "the last window's result would answer for the next", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "last window", ibid.Keep{Retain: e.tick})
		e.pass(2 * e.tick)
		next := e.claim()
		next.Fingerprint = ibid.Fingerprint{0xf2}
		r := e.granted(k, next)
		e.want(r.Attempt == 1 && r.Result == nil, "a new key shows %s", show(r))
		e.complete(k, next, "this window")
		e.answers(k, "this window")
	}},
	{"a released key is kept until its window ends", "attempts could not be counted, nor would they ever be forgotten", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = e.tick, e.tick
		e.granted(k, c)
		e.release(k, c)
		r := e.state(k, ibid.Released)
		e.want(r.Window <= 2*e.tick+2*e.target.Resolution, "released, the key is kept for %v", r.Window)
		e.pass(3 * e.tick)
		e.unset(e.look(k))
		r = e.granted(k, e.claim())
		e.want(r.Attempt == 1, "a new key shows %s", show(r))
	}},
	{"a replay keeps nothing longer", "a busy key would be kept for ever", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: long})
		was := e.look(k)
		e.pass(2 * e.tick)
		again := e.claim()
		again.Lease, again.Window = 2*long, 2*long
		e.refused(k, again, ibid.Completed)
		e.unchanged(k, was, 2*e.tick)
	}},
	{"each key has a window of its own", "one key's end would be another's", func(e *env) {
		var keys []ibid.Digest
		for n := range 8 {
			k, c := e.owned()
			keep := long
			if n%2 == 0 {
				keep = e.tick
			}
			e.completeFor(k, c, "receipt", ibid.Keep{Retain: keep})
			keys = append(keys, k)
		}
		e.pass(2 * e.tick)
		for n, k := range keys {
			if n%2 == 0 {
				e.state(k, ibid.Absent)
			} else {
				e.answers(k, "receipt")
			}
		}
	}},
}
