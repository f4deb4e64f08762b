package storetest

import (
	"errors"
	"fmt"

	"github.com/ibid-go/ibid"
)

// Many callers at once.
var races = []clause{
	{"of many who begin at once, one owns the key", "two owners run the work twice", func(e *env) {
		for range 5 {
			k := e.key()
			n := e.beginners(k, e.target.Callers)
			e.want(n == 1, "%d of %d callers own the key", n, e.target.Callers)
			r := e.look(k)
			e.want(r.Attempt == 1, "after the race the key shows %s, want attempt 1", show(r))
		}
	}},
	{"of many who take over at once, one owns the key", "two owners run the work twice", func(e *env) {
		for range 5 {
			k, _ := e.abandoned()
			n := e.beginners(k, e.target.Callers)
			e.want(n == 1, "%d of %d callers own the key", n, e.target.Callers)
			r := e.look(k)
			e.want(r.Attempt == 2 && r.Vanished == 1, "after the race the key shows %s, want attempt 2 after 1 vanished", show(r))
		}
	}},
	{"of many who claim a released key at once, one owns it", "two owners run the work twice", func(e *env) {
		for range 5 {
			k, c := e.owned()
			e.release(k, c)
			n := e.beginners(k, e.target.Callers)
			e.want(n == 1, "%d of %d callers own the key", n, e.target.Callers)
		}
	}},
	{"of many who claim a key whose window is over, one owns it", "two owners run the work twice", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "last window", ibid.Keep{Retain: e.tick})
		e.pass(2 * e.tick)
		n := e.beginners(k, e.target.Callers)
		e.want(n == 1, "%d of %d callers own the key", n, e.target.Callers)
	}},
	{"one token begun many times at once is one claim", "copies of one packet would count as attempts", func(e *env) {
		k, c := e.key(), e.claim()
		n := e.target.Callers
		records, errs := make([]ibid.Record, n), make([]error, n)
		e.race(n, func(i int) { records[i], errs[i] = e.store.Begin(e.ctx, k, c) })
		for i := range n {
			e.want(errs[i] == nil, "Begin: %v", errs[i])
			e.want(records[i].OwnedBy(c.Token) && records[i].Attempt == 1, "a copy is shown %s", show(records[i]))
		}
	}},
	{"of many results completed at once, one stands", "two callers would be given two answers", func(e *env) {
		for range 5 {
			k, c := e.owned()
			n := e.target.Callers
			errs := make([]error, n)
			e.race(n, func(i int) {
				errs[i] = e.store.Complete(e.ctx, k, c.Token, []byte(fmt.Sprint(i)), ibid.Keep{Retain: long})
			})
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner >= 0:
					e.failf("results %d and %d were both acknowledged", winner, i)
				case err == nil:
					winner = i
				default:
					e.lost("Complete", err)
				}
			}
			e.answers(k, fmt.Sprint(winner))
		}
	}},
	{"a completion and a takeover exclude each other", "an acknowledged result would be run again, or a zombie's kept", func(e *env) {
		for range 20 {
			k, c := e.abandoned()
			takers := make([]ibid.Claim, 4)
			for i := range takers {
				takers[i] = e.taker()
			}
			records, errs := make([]ibid.Record, len(takers)), make([]error, len(takers))
			var completed error
			e.race(len(takers)+1, func(i int) {
				if i == len(takers)/2 {
					completed = e.store.Complete(e.ctx, k, c.Token, []byte("late receipt"), ibid.Keep{Retain: long})
					return
				}
				if i > len(takers)/2 {
					i--
				}
				records[i], errs[i] = e.store.Begin(e.ctx, k, takers[i])
			})
			owners := 0
			for i := range takers {
				e.want(errs[i] == nil, "Begin: %v", errs[i])
				if records[i].OwnedBy(takers[i].Token) {
					owners++
				}
			}
			if completed != nil {
				e.lost("Complete", completed)
				e.want(owners == 1, "the completion was lost, and %d took over", owners)
				e.state(k, ibid.InProgress)
				continue
			}
			e.want(owners == 0, "the completion was acknowledged, and %d took over", owners)
			e.answers(k, "late receipt")
		}
	}},
	{"a renewal and a takeover exclude each other", "two owners run the work twice", func(e *env) {
		for range 20 {
			k, c := e.abandoned()
			next := e.taker()
			var r ibid.Record
			var begun, extended error
			e.race(2, func(i int) {
				if i == 0 {
					extended = e.store.Extend(e.ctx, k, c.Token, long)
				} else {
					r, begun = e.store.Begin(e.ctx, k, next)
				}
			})
			e.want(begun == nil, "Begin: %v", begun)
			e.want(extended == nil || errors.Is(extended, ibid.ErrClaimLost), "Extend: %v", extended)
			e.want((extended == nil) != r.OwnedBy(next.Token), "Extend says %v, and Begin shows %s", extended, show(r))
		}
	}},
	{"a release and a completion exclude each other", "an acknowledged result would be run again", func(e *env) {
		for range 20 {
			k, c := e.owned()
			var completed, released error
			e.race(2, func(i int) {
				if i == 0 {
					completed = e.store.Complete(e.ctx, k, c.Token, []byte("receipt"), ibid.Keep{Retain: long})
				} else {
					released = e.store.Release(e.ctx, k, c.Token)
				}
			})
			e.want(released == nil, "Release: %v", released)
			if completed == nil {
				e.answers(k, "receipt")
			} else {
				e.lost("Complete", completed)
				e.state(k, ibid.Released)
			}
		}
	}},
	{"many keys at once keep to themselves", "one caller would be answered with another's result", func(e *env) {
		n := e.target.Callers
		keys, claims, errs := make([]ibid.Digest, n), make([]ibid.Claim, n), make([]error, n)
		for i := range keys {
			keys[i], claims[i] = e.key(), e.claim()
		}
		e.race(n, func(i int) {
			r, err := e.store.Begin(e.ctx, keys[i], claims[i])
			if err == nil && !r.OwnedBy(claims[i].Token) {
				err = errors.New("not granted: " + show(r))
			}
			if err == nil {
				err = e.store.Complete(e.ctx, keys[i], claims[i].Token, []byte(keys[i].String()), ibid.Keep{Retain: long})
			}
			errs[i] = err
		})
		for i, k := range keys {
			e.want(errs[i] == nil, "key %d: %v", i, errs[i])
			e.answers(k, k.String())
		}
	}},
	{"two handles see one store", "each process would run the work once", func(e *env) {
		second, done := e.second()
		defer done()
		k, c := e.owned()
		if e.failed() {
			return
		}
		r, err := second.Begin(e.ctx, k, e.taker())
		e.want(err == nil && r.State == ibid.InProgress && r.Token == c.Token, "the second handle is shown %s, %v", show(r), err)
		e.complete(k, c, "receipt")
		r, err = second.Look(e.ctx, k)
		e.want(err == nil && r.State == ibid.Completed && string(r.Result) == "receipt", "the second handle is shown %s, %v", show(r), err)
	}},
	{"of many who begin through two handles at once, one owns the key", "two processes run the work twice", func(e *env) {
		second, done := e.second()
		defer done()
		for range 5 {
			k := e.key()
			n := e.target.Callers
			records, errs, claims := make([]ibid.Record, n), make([]error, n), make([]ibid.Claim, n)
			for i := range claims {
				claims[i] = e.taker()
			}
			e.race(n, func(i int) {
				store := e.store
				if i%2 == 1 {
					store = second
				}
				records[i], errs[i] = store.Begin(e.ctx, k, claims[i])
			})
			owners := 0
			for i := range n {
				e.want(errs[i] == nil, "Begin: %v", errs[i])
				if records[i].OwnedBy(claims[i].Token) {
					owners++
				}
			}
			e.want(owners == 1, "%d of %d callers own the key", owners, n)
		}
	}},
}

// second opens another handle on the store's data, and ends the case if there
// is no such thing. The caller calls done.
func (e *env) second() (store ibid.Store, done func()) {
	done = func() {}
	if e.target.Second == nil {
		if e.err == nil {
			e.err = NeedsSecond
		}
		return nil, done
	}
	store, closeStore, err := e.target.Second(e.ctx, e.store)
	if err != nil {
		e.failf("open a second handle: %w", err)
		return nil, done
	}
	if closeStore != nil {
		done = func() {
			if err := closeStore(); err != nil {
				e.failf("close the second handle: %w", err)
			}
		}
	}
	return store, done
}
