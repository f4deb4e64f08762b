package storetest

import "github.com/ibid-go/ibid"

// Who owns a key, and what everybody else is shown.
var ownership = []clause{
	{"an unknown key is absent", "a store that shows something refuses work that never ran", func(e *env) {
		r := e.look(e.key())
		e.unset(r)
	}},
	{"the first caller owns the key", "nobody would ever run the work", func(e *env) {
		k, c := e.key(), e.claim()
		r := e.granted(k, c)
		e.want(r.Attempt == 1 && r.Vanished == 0 && r.Generation == 0, "a first claim shows %s, want attempt 1 of a new key", show(r))
		e.want(r.Fence > 0, "the fence is %d, want more than 0", r.Fence)
		e.want(r.Result == nil && len(r.Steps) == 0, "a first claim shows a result or steps: %s", show(r))
		e.near("Lease", r.Lease, c.Lease)
		e.near("Window", r.Window, c.Lease+c.Window)
	}},
	{"the claim is seen by everyone", "another process would not know that the work runs", func(e *env) {
		k, c := e.owned()
		r := e.state(k, ibid.InProgress)
		e.want(r.OwnedBy(c.Token), "Look shows %s, want the token %v", show(r), c.Token)
	}},
	{"the second caller does not own the key", "two owners run the work twice", func(e *env) {
		k, c := e.owned()
		r := e.refused(k, e.claim(), ibid.InProgress)
		e.want(r.Token == c.Token, "the second caller is shown %s, want the token %v of the first", show(r), c.Token)
	}},
	{"whoever takes over vanished attempts waits for the lease", "takeover of a claim in progress runs the work twice", func(e *env) {
		k, c := e.owned()
		r := e.refused(k, e.taker(), ibid.InProgress)
		e.want(r.Token == c.Token && r.Vanished == 0, "the second caller is shown %s, want the first claim", show(r))
	}},
	{"another request is shown the fingerprint that stands while the first is in progress", "a mismatch must be told from a duplicate before the work ends", func(e *env) {
		k, c := e.owned()
		other := e.claim()
		other.Fingerprint = ibid.Fingerprint{0xf2}
		r := e.refused(k, other, ibid.InProgress)
		e.want(r.Fingerprint == c.Fingerprint, "shown %s, want the fingerprint of the first claim", show(r))
	}},
	{"a completed key answers its result", "the replay is what the store is for", func(e *env) {
		k, c := e.completed("receipt")
		r := e.refused(k, e.claim(), ibid.Completed)
		e.want(string(r.Result) == "receipt", "the result is %q", r.Result)
		e.want(r.Token == c.Token && r.Attempt == 1 && r.Fence > 0, "the replay shows %s, want the claim that completed it", show(r))
		e.want(r.Lease == 0, "a completed record has a lease: %v", r.Lease)
	}},
	{"a completed key shows its fingerprint to another request", "the other request would be answered with this one's result", func(e *env) {
		k, c := e.completed("receipt")
		other := e.taker()
		other.Fingerprint = ibid.Fingerprint{0xf2}
		r := e.refused(k, other, ibid.Completed)
		e.want(r.Fingerprint == c.Fingerprint, "shown %s, want the fingerprint of the completed claim", show(r))
	}},
	{"two keys do not meet", "one caller would be answered with another's result", func(e *env) {
		k1, _ := e.completed("one")
		k2, _ := e.completed("two")
		e.answers(k1, "one")
		e.answers(k2, "two")
	}},
	{"a claim shows its scope and label", "operators could not tell whose key it is", func(e *env) {
		k, c := e.key(), e.claim()
		c.Label = []byte("order 17")
		e.granted(k, c)
		r := e.look(k)
		e.want(r.Scope == c.Scope && string(r.Label) == "order 17", "Look shows scope %v and label %q", r.Scope, r.Label)
		e.complete(k, c, "")
		r = e.look(k)
		e.want(r.Scope == c.Scope && string(r.Label) == "order 17", "once completed, Look shows scope %v and label %q", r.Scope, r.Label)
	}},
	{"a claim without label shows none", "the label of an earlier claim would name the wrong request", func(e *env) {
		k, c := e.key(), e.claim()
		c.Label = []byte("order 17")
		e.granted(k, c)
		e.release(k, c)
		e.granted(k, e.claim())
		r := e.look(k)
		e.want(len(r.Label) == 0, "the label is %q", r.Label)
	}},
	{"a key claimed again shows the claim that stands", "an operator would resolve the wrong attempt", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		next := e.claim()
		next.Scope, next.Fingerprint = ibid.Digest{0x5d}, ibid.Fingerprint{0xf2}
		e.granted(k, next)
		r := e.look(k)
		e.want(r.Token == next.Token && r.Scope == next.Scope && r.Fingerprint == next.Fingerprint, "Look shows %s of scope %v", show(r), r.Scope)
	}},
}

// unset fails the case unless r is the zero Record.
func (e *env) unset(r ibid.Record) {
	e.want(r.State == ibid.Absent && r.Token.IsZero() && r.Fence == 0 && r.Attempt == 0 && r.Vanished == 0 &&
		r.Generation == 0 && r.Fingerprint == ibid.Fingerprint{} && r.Scope == ibid.Digest{} && len(r.Label) == 0 &&
		r.Lease == 0 && r.Window == 0 && r.Result == nil && len(r.Steps) == 0,
		"an absent key shows %s, want the zero record", show(r))
}
