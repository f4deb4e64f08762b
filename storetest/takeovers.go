package storetest

import "github.com/ibid-go/ibid"

// What follows an attempt that vanished. A claim never stands on more vanished
// attempts than its MaxTakeovers.
var takeovers = []clause{
	{"a claim that takes nothing over leaves a lapsed one standing", "under Refuse the work would run twice", func(e *env) {
		k, c := e.abandoned()
		r := e.refused(k, e.claim(), ibid.Lapsed)
		e.want(r.Token == c.Token && r.Attempt == 1 && r.Vanished == 0, "shown %s, want the lapsed claim of attempt 1", show(r))
	}},
	{"a lapsed claim is taken over by one that may", "under Retry and Probe the key would be stuck", func(e *env) {
		k, c := e.abandoned()
		was := e.look(k)
		next := e.claim()
		next.MaxTakeovers = 1
		r := e.granted(k, next)
		e.want(r.Attempt == 2 && r.Vanished == 1, "the takeover shows %s, want attempt 2 after 1 vanished", show(r))
		e.want(r.Fence > was.Fence, "the fence went from %d to %d", was.Fence, r.Fence)
		e.near("Lease", r.Lease, next.Lease)
		e.near("Window", r.Window, next.Lease+next.Window)
		e.want(r.Token != c.Token, "the takeover shows the token it took over")
	}},
	{"a lapsed claim is taken over once its lease is over, given up or not", "a dead process gives nothing up", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		r := e.granted(k, e.taker())
		e.want(r.Vanished == 1, "the takeover shows %s, want 1 vanished", show(r))
	}},
	{"MaxTakeovers counts every vanished attempt of the key", "a key that kills each process would go on killing", func(e *env) {
		k, _ := e.abandoned()
		for n := 1; n <= 3; n++ {
			c := e.taker()
			c.MaxTakeovers = 3
			r := e.granted(k, c)
			e.want(r.Vanished == n && r.Attempt == n+1, "takeover %d shows %s", n, show(r))
			e.extend(k, c, 0)
		}
		c := e.claim()
		c.MaxTakeovers = 3
		r := e.refused(k, c, ibid.Lapsed)
		e.want(r.Vanished == 3, "shown %s, want 3 vanished: the lapsed one is counted when it is taken over", show(r))
	}},
	{"negative MaxTakeovers has no limit", "a key would be stuck although the work deduplicates", func(e *env) {
		k, _ := e.abandoned()
		for n := 1; n <= 20; n++ {
			c := e.taker()
			r := e.granted(k, c)
			e.want(r.Vanished == n, "takeover %d shows %s", n, show(r))
			e.extend(k, c, 0)
		}
	}},
	{"a released key stands on the attempts that vanished before", "whoever takes nothing over would run on a doubtful effect", func(e *env) {
		k, _ := e.abandoned()
		second := e.taker()
		e.granted(k, second)
		e.release(k, second)
		r := e.refused(k, e.claim(), ibid.Released)
		e.want(r.Vanished == 1, "shown %s, want 1 vanished", show(r))
		third := e.claim()
		third.MaxTakeovers = 1
		r = e.granted(k, third)
		e.want(r.Attempt == 3 && r.Vanished == 1, "the third claim shows %s, want attempt 3 after 1 vanished", show(r))
	}},
	{"MaxAttempts counts the attempt that asks", "one attempt too many, or one too few", func(e *env) {
		k := e.key()
		for n := 1; n <= 3; n++ {
			c := e.claim()
			c.MaxAttempts = 3
			r := e.granted(k, c)
			e.want(r.Attempt == n, "claim %d shows %s", n, show(r))
			e.release(k, c)
		}
		c := e.claim()
		c.MaxAttempts = 3
		r := e.refused(k, c, ibid.Released)
		e.want(r.Attempt == 3, "shown %s, want 3 attempts", show(r))
	}},
	{"MaxAttempts binds takeovers", "attempts that vanish are attempts", func(e *env) {
		k, _ := e.abandoned()
		c := e.taker()
		c.MaxAttempts = 1
		e.refused(k, c, ibid.Lapsed)
		c.MaxAttempts = 2
		e.granted(k, c)
	}},
	{"MaxAttempts of 0 or less has no limit", "work that fails often could never succeed", func(e *env) {
		k := e.key()
		for n := range 20 {
			c := e.claim()
			c.MaxAttempts = -(n % 2)
			r := e.granted(k, c)
			e.want(r.Attempt == n+1, "claim %d shows %s", n+1, show(r))
			e.release(k, c)
		}
	}},
	{"a lapsed claim is never taken over under another fingerprint", "another request's doubtful effect would be overwritten", func(e *env) {
		k, c := e.abandoned()
		other := e.taker()
		other.Fingerprint = ibid.Fingerprint{0xf2}
		r := e.refused(k, other, ibid.Lapsed)
		e.want(r.Fingerprint == c.Fingerprint && r.Token == c.Token, "shown %s, want the lapsed claim", show(r))
	}},
	{"fingerprints that differ in their last bit differ", "a store that shortens them mixes requests up", func(e *env) {
		k, _ := e.abandoned()
		other := e.taker()
		other.Fingerprint[len(other.Fingerprint)-1] ^= 1
		e.refused(k, other, ibid.Lapsed)
	}},
	{"the zero fingerprint is a fingerprint", "it stands for nothing but the key, not for any request", func(e *env) {
		k := e.key()
		c := e.claim()
		c.Fingerprint = ibid.Fingerprint{}
		e.granted(k, c)
		e.extend(k, c, 0)
		e.refused(k, e.taker(), ibid.Lapsed)
		other := e.taker()
		other.Fingerprint = ibid.Fingerprint{}
		e.granted(k, other)
	}},
}
