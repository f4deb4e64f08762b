package storetest

import "github.com/ibid-go/ibid"

// A Checkpointer keeps the state of an operation's steps.
var checkpoints = []clause{
	{"steps are shown to the attempt that takes over", "finished steps would run again", func(e *env) {
		k, c := e.owned()
		e.checkpoint(k, c, "step 1")
		e.checkpoint(k, c, "step 1, step 2")
		r := e.state(k, ibid.InProgress)
		e.want(string(r.Steps) == "step 1, step 2", "the steps are %q", r.Steps)
		e.extend(k, c, 0)
		r = e.granted(k, e.taker())
		e.want(string(r.Steps) == "step 1, step 2", "the takeover shows the steps %q", r.Steps)
	}},
	{"a checkpoint changes nothing but the steps", "a checkpoint would end the lease, or grant another", func(e *env) {
		k, c := e.owned()
		was := e.look(k)
		e.pass(2 * e.tick)
		e.checkpoint(k, c, "step 1")
		was.Steps = []byte("step 1")
		e.unchanged(k, was, 2*e.tick)
	}},
	{"steps stay over Begin asked again", "the owner would run its own finished steps again", func(e *env) {
		k, c := e.owned()
		e.checkpoint(k, c, "step 1")
		r := e.granted(k, c)
		e.want(string(r.Steps) == "step 1", "asked again, Begin shows the steps %q", r.Steps)
	}},
	{"a checkpoint of another token is lost", "an attempt would skip a step that is not its own", func(e *env) {
		k, c := e.owned()
		e.checkpoint(k, c, "step 1")
		was := e.look(k)
		e.loseCheckpoint(k, ibid.NewToken())
		e.loseCheckpoint(k, ibid.Token{})
		e.unchanged(k, was, 0)
	}},
	{"a checkpoint after Complete is lost", "a result that stands has no steps to come", func(e *env) {
		k, c := e.completed("receipt")
		was := e.look(k)
		e.loseCheckpoint(k, c.Token)
		e.unchanged(k, was, 0)
	}},
	{"a checkpoint after Release is lost", "whoever said that nothing happened has no step to report", func(e *env) {
		k, c := e.owned()
		e.release(k, c)
		was := e.look(k)
		e.loseCheckpoint(k, c.Token)
		e.unchanged(k, was, 0)
	}},
	{"steps are gone when the window is over", "the next window would skip the steps of this one", func(e *env) {
		k, c := e.key(), e.claim()
		c.Lease, c.Window = e.tick, e.tick
		e.granted(k, c)
		e.checkpoint(k, c, "step 1")
		e.pass(3 * e.tick)
		r := e.granted(k, e.claim())
		e.want(len(r.Steps) == 0, "a new key shows the steps %q", r.Steps)
	}},
}
