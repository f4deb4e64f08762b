package storetest

import (
	"bytes"
	"slices"

	"github.com/ibid-go/ibid"
)

// An Inspector lists records, and forgets one on purpose.
var inspections = []clause{
	{"List shows keys in ascending order, page by page", "an operator would miss records, or see them twice", func(e *env) {
		var keys []ibid.Digest
		for range 23 {
			k, _ := e.owned()
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b ibid.Digest) int { return bytes.Compare(a[:], b[:]) })
		for _, size := range []int{1, 5, 23, 100} {
			var seen []ibid.Digest
			var after ibid.Digest
			for len(seen) <= len(keys) {
				page := e.list(ibid.Filter{}, after, size)
				e.want(len(page) <= size, "a page of %d holds %d", size, len(page))
				for _, entry := range page {
					seen = append(seen, entry.Key)
					after = entry.Key
				}
				if len(page) == 0 {
					break
				}
			}
			e.want(slices.Equal(seen, keys), "pages of %d show %d keys, want %d in order", size, len(seen), len(keys))
		}
	}},
	{"List selects by scope", "an operator would act on another tenant's keys", func(e *env) {
		k, c := e.key(), e.claim()
		c.Scope = ibid.Digest{0x5d}
		e.granted(k, c)
		e.owned()
		e.lists(ibid.Filter{Scope: c.Scope}, k)
		e.lists(ibid.Filter{Scope: ibid.Digest{0x99}})
	}},
	{"List selects by state", "an operator could not find what is in doubt", func(e *env) {
		inProgress, _ := e.owned()
		lapsed, _ := e.abandoned()
		released, c := e.owned()
		e.release(released, c)
		completed, _ := e.completed("receipt")
		expired, c := e.owned()
		e.completeFor(expired, c, "receipt", ibid.Keep{Retain: e.tick, Remember: long})
		e.pass(2 * e.tick)
		for k, s := range map[ibid.Digest]ibid.State{
			inProgress: ibid.InProgress, lapsed: ibid.Lapsed, released: ibid.Released, completed: ibid.Completed, expired: ibid.Expired,
		} {
			e.lists(ibid.Filter{States: []ibid.State{s}}, k)
		}
		e.lists(ibid.Filter{States: []ibid.State{ibid.Lapsed, ibid.Expired}}, lapsed, expired)
		e.lists(ibid.Filter{}, inProgress, lapsed, released, completed, expired)
	}},
	{"List judges a lease that ended by itself", "what vanished would be listed as in progress", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease = e.tick
		e.granted(k, c)
		e.pass(2 * e.tick)
		e.lists(ibid.Filter{States: []ibid.State{ibid.Lapsed}}, k)
		e.lists(ibid.Filter{States: []ibid.State{ibid.InProgress}})
	}},
	{"List leaves out what is over", "an operator would see keys that are new to everyone else", func(e *env) {
		e.over()
		e.pass(3 * e.tick)
		e.lists(ibid.Filter{})
		e.lists(ibid.Filter{States: []ibid.State{ibid.Absent}})
	}},
	{"List shows records as Look does, without results", "answers are for those who asked", func(e *env) {
		k, c := e.key(), e.claim()
		c.Label = []byte("order 17")
		e.granted(k, c)
		e.complete(k, c, "receipt")
		page := e.list(ibid.Filter{}, ibid.Digest{}, 10)
		r := e.look(k)
		if e.failed() {
			return
		}
		e.want(len(page) == 1, "List shows %d records, want 1", len(page))
		if e.failed() {
			return
		}
		got := page[0].Record
		e.want(len(got.Result) == 0, "List shows the result %q", got.Result)
		e.want(got.State == r.State && got.Token == r.Token && got.Fence == r.Fence && got.Attempt == r.Attempt && got.Fingerprint == r.Fingerprint && got.Scope == r.Scope && bytes.Equal(got.Label, r.Label),
			"List shows %s, want %s", show(got), show(r))
	}},
	{"Forget lets the work run again, in the next generation", "a key that was resolved by hand could never be used again", func(e *env) {
		k, c := e.completed("receipt")
		e.forget(k, c.Token, long)
		r := e.state(k, ibid.Released)
		e.want(r.Generation == 1 && r.Attempt == 0 && r.Result == nil && r.Fingerprint == ibid.Fingerprint{}, "forgotten, the key shows %s, want nothing but generation 1", show(r))
		e.near("Window", r.Window, long)
		next := e.claim()
		next.Fingerprint, next.MaxAttempts = ibid.Fingerprint{0xf2}, 1
		r = e.granted(k, next)
		e.want(r.Generation == 1 && r.Attempt == 1, "claimed again, the key shows %s, want attempt 1 of generation 1", show(r))
		e.complete(k, next, "second receipt")
		r = e.answers(k, "second receipt")
		e.want(r.Generation == 1, "completed again, the key shows %s, want generation 1", show(r))
	}},
	{"Forget counts generations", "the third run's derived keys would be those of the second", func(e *env) {
		k, c := e.owned()
		for n := 1; n <= 3; n++ {
			e.forget(k, c.Token, long)
			c = e.claim()
			r := e.granted(k, c)
			e.want(r.Generation == n, "forgotten %d times, the key shows %s", n, show(r))
			e.release(k, c)
			r = e.look(k)
			e.want(r.Generation == n, "released, the key shows %s, want generation %d", show(r), n)
			c.Token = r.Token
		}
	}},
	{"Forget compares the token", "an operator would drop what changed since it was read", func(e *env) {
		k, c := e.abandoned()
		next := e.taker()
		e.granted(k, next)
		e.complete(k, next, "receipt")
		e.loseForget(k, c.Token)
		e.loseForget(k, ibid.Token{})
		e.loseForget(k, ibid.NewToken())
		r := e.answers(k, "receipt")
		e.want(r.Generation == 0, "the key shows %s, want generation 0", show(r))
	}},
	{"Forget of an absent key is lost", "it would leave a record of nothing", func(e *env) {
		k := e.key()
		e.loseForget(k, ibid.NewToken())
		e.loseForget(k, ibid.Token{})
		e.unset(e.look(k))
	}},
	{"the owner of a forgotten claim has lost it", "it would complete a generation that is over", func(e *env) {
		k, c := e.owned()
		e.forget(k, c.Token, long)
		e.loseComplete(k, c.Token, "zombie")
		e.loseExtend(k, c.Token, long)
		e.release(k, c)
		e.state(k, ibid.Released)
	}},
	{"the generation stays for the window of Forget", "derived keys must not be raised for ever", func(e *env) {
		k, c := e.owned()
		e.forget(k, c.Token, e.tick)
		e.pass(2 * e.tick)
		e.unset(e.look(k))
		r := e.granted(k, e.claim())
		e.want(r.Generation == 0, "a new key shows %s, want generation 0", show(r))
	}},
	{"Forget drops steps", "the new run would skip what was forgotten", func(e *env) {
		k, c := e.owned()
		e.checkpoint(k, c, "step 1")
		e.forget(k, c.Token, long)
		r := e.granted(k, e.claim())
		e.want(len(r.Steps) == 0, "claimed again, the key shows %s, want no steps", show(r))
	}},
}

func (e *env) list(f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
	s, ok := ability[ibid.Inspector](e, "an Inspector")
	if !ok {
		return nil
	}
	entries, err := s.List(e.ctx, f, after, limit)
	if err != nil {
		e.failf("List: %w", err)
	}
	return entries
}

// lists fails the case unless f selects exactly keys.
func (e *env) lists(f ibid.Filter, keys ...ibid.Digest) {
	page := e.list(f, ibid.Digest{}, len(keys)+10)
	if e.failed() {
		return
	}
	got := map[ibid.Digest]bool{}
	for _, entry := range page {
		got[entry.Key] = true
	}
	e.want(len(page) == len(keys), "List of states %v shows %d records, want %d", f.States, len(page), len(keys))
	for _, k := range keys {
		e.want(got[k], "List of states %v does not show %v", f.States, k)
	}
}
