package storetest

import (
	"context"
	"time"

	"github.com/ibid-go/ibid"
)

// A verb whose context is over reports an error. Whether it was applied is then
// unknown, and asking again with the same token settles it.
var contexts = []clause{
	{"Begin on a cancelled context is an error, and may be asked again", "a caller that hung up would be told that it owns the key, or lose it", func(e *env) {
		k, c := e.key(), e.claim()
		e.hungUp("Begin", func(ctx context.Context) error { _, err := e.store.Begin(ctx, k, c); return err })
		r := e.granted(k, c)
		e.want(r.Attempt == 1, "asked again, Begin shows %s, want attempt 1", show(r))
	}},
	{"Begin on a context whose deadline is over is an error", "a call that is out of time would claim what nobody runs", func(e *env) {
		k, c := e.key(), e.claim()
		if e.failed() {
			return
		}
		ctx, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
		defer cancel()
		_, err := e.store.Begin(ctx, k, c)
		e.want(err != nil, "Begin after its deadline reports no error")
		r := e.granted(k, c)
		e.want(r.Attempt == 1, "asked again, Begin shows %s, want attempt 1", show(r))
	}},
	{"Look on a cancelled context is an error", "absent is an answer, and must not stand for no answer", func(e *env) {
		k, _ := e.completed("receipt")
		e.hungUp("Look", func(ctx context.Context) error { _, err := e.store.Look(ctx, k); return err })
	}},
	{"Extend on a cancelled context is an error", "a caller would trust a lease that was not granted", func(e *env) {
		k, c := e.owned()
		e.hungUp("Extend", func(ctx context.Context) error { return e.store.Extend(ctx, k, c.Token, 2*long) })
		e.extend(k, c, long)
	}},
	{"Complete on a cancelled context is an error, and may be asked again", "a result would be acknowledged that was not kept", func(e *env) {
		k, c := e.owned()
		e.hungUp("Complete", func(ctx context.Context) error {
			return e.store.Complete(ctx, k, c.Token, []byte("receipt"), ibid.Keep{Retain: long})
		})
		e.complete(k, c, "receipt")
		e.answers(k, "receipt")
	}},
	{"Release on a cancelled context is an error, and may be asked again", "a key would be believed free that is not", func(e *env) {
		k, c := e.owned()
		e.hungUp("Release", func(ctx context.Context) error { return e.store.Release(ctx, k, c.Token) })
		e.release(k, c)
		e.state(k, ibid.Released)
	}},
}

// hungUp fails the case unless verb reports an error on a cancelled context.
func (e *env) hungUp(verb string, f func(ctx context.Context) error) {
	if e.failed() {
		return
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	e.want(f(ctx) != nil, "%s on a cancelled context reports no error", verb)
}
