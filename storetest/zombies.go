package storetest

import (
	"github.com/ibid-go/ibid"
)

// Verbs of an owner that came back after its claim was lost. Each compares the
// token in the same step in which it writes.
var zombies = []clause{
	{"Complete after a takeover is lost", "the new owner's result would be overwritten", func(e *env) {
		k, c := e.abandoned()
		next := e.taker()
		e.granted(k, next)
		e.loseComplete(k, c.Token, "zombie")
		r := e.state(k, ibid.InProgress)
		e.want(r.Token == next.Token, "shown %s, want the claim that took over", show(r))
		e.complete(k, next, "receipt")
		e.loseComplete(k, c.Token, "zombie")
		e.answers(k, "receipt")
	}},
	{"Extend after a takeover is lost", "two owners would renew one claim", func(e *env) {
		k, c := e.abandoned()
		next := e.taker()
		r := e.granted(k, next)
		e.loseExtend(k, c.Token, 2*long)
		e.unchanged(k, r, 0)
	}},
	{"giving up after a takeover is lost", "the new owner's claim would lapse under it", func(e *env) {
		k, c := e.abandoned()
		next := e.taker()
		r := e.granted(k, next)
		e.loseExtend(k, c.Token, 0)
		e.unchanged(k, r, 0)
	}},
	{"Release after a takeover frees nothing", "the key would be claimed a third time while the work runs", func(e *env) {
		k, c := e.abandoned()
		next := e.taker()
		r := e.granted(k, next)
		e.release(k, c)
		e.unchanged(k, r, 0)
	}},
	{"Checkpoint after a takeover is lost", "the new owner would skip a step that is not its own", func(e *env) {
		k, c := e.abandoned()
		next := e.taker()
		r := e.granted(k, next)
		e.loseCheckpoint(k, c.Token)
		e.unchanged(k, r, 0)
	}},
	{"every verb after the window is over is lost", "a record that is no longer kept would come back to life", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = e.tick, e.tick
		e.granted(k, c)
		e.pass(3 * e.tick)
		e.loseExtend(k, c.Token, long)
		e.loseExtend(k, c.Token, 0)
		e.loseComplete(k, c.Token, "zombie")
		e.release(k, c)
		e.unset(e.look(k))
	}},
	{"every verb of a window that is over is lost in the next one", "an owner of the last window would complete this one", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = e.tick, e.tick
		e.granted(k, c)
		e.pass(3 * e.tick)
		next := e.claim()
		r := e.granted(k, next)
		e.loseExtend(k, c.Token, long)
		e.loseExtend(k, c.Token, 0)
		e.loseComplete(k, c.Token, "zombie")
		e.release(k, c)
		e.unchanged(k, r, 0)
	}},
	{"Complete after the result was kept to its end is lost", "a late packet would answer for a window that is over", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick})
		e.pass(2 * e.tick)
		e.loseComplete(k, c.Token, "receipt")
		e.unset(e.look(k))
	}},
	{"Complete of a remembered key is lost", "the result is no longer kept, so that it cannot be the same", func(e *env) {
		k, c := e.owned()
		e.completeFor(k, c, "receipt", ibid.Keep{Retain: e.tick, Remember: long})
		e.pass(2 * e.tick)
		e.loseComplete(k, c.Token, "receipt")
		e.state(k, ibid.Expired)
	}},
	{"Complete and Extend after Release are lost", "whoever said that nothing happened cannot say that it did", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		e.loseComplete(k, c.Token, "zombie")
		e.loseExtend(k, c.Token, long)
		e.loseExtend(k, c.Token, 0)
		e.state(k, ibid.Released)
	}},
	{"Extend after Complete is lost", "a renewal that crosses the completion must not reopen the key", func(e *env) {
		k, c := e.completed("receipt")
		was := e.look(k)
		e.loseExtend(k, c.Token, 2*long)
		e.loseExtend(k, c.Token, 0)
		e.unchanged(k, was, 0)
	}},
	{"a token that never stood writes nothing", "anyone could end anyone's claim", func(e *env) {
		k, c := e.owned()
		r := e.look(k)
		stranger := e.claim()
		e.loseExtend(k, stranger.Token, 2*long)
		e.loseExtend(k, stranger.Token, 0)
		e.loseComplete(k, stranger.Token, "stranger")
		e.release(k, stranger)
		e.unchanged(k, r, 0)
		e.complete(k, c, "receipt")
	}},
	{"a token that differs in one bit writes nothing", "a store that shortens tokens lets one claim pass for another", func(e *env) {
		k, c := e.owned()
		r := e.look(k)
		for _, i := range []int{0, 7, 8, len(c.Token) - 1} {
			token := c.Token
			token[i] ^= 0x80
			e.loseExtend(k, token, 2*long)
			e.loseComplete(k, token, "stranger")
		}
		e.unchanged(k, r, 0)
	}},
	{"the zero token holds nothing", "a released or absent key has no token, and whoever has none does not own it", func(e *env) {
		k := e.key()
		var zero ibid.Token
		e.loseExtend(k, zero, long)
		e.loseComplete(k, zero, "stranger")
		k, c := e.owned()
		e.release(k, c)
		e.loseExtend(k, zero, long)
		e.loseComplete(k, zero, "stranger")
		e.state(k, ibid.Released)
	}},
}
