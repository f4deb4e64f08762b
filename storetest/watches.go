package storetest

import (
	"time"

	"github.com/ibid-go/ibid"
)

// A Notifier wakes those who wait for a key.
var watches = []clause{
	{"a completion wakes who watches", "waiters would poll for the answer", func(e *env) {
		k, c := e.owned()
		changed, stop := e.watch(k)
		defer stop()
		e.complete(k, c, "receipt")
		e.wakes(changed)
	}},
	{"a release wakes who watches", "waiters would sit out a lease that nobody holds", func(e *env) {
		k, c := e.owned()
		changed, stop := e.watch(k)
		defer stop()
		e.release(k, c)
		e.wakes(changed)
	}},
	{"giving up wakes who watches", "waiters would sit out a lease that nobody holds", func(e *env) {
		k, c := e.owned()
		changed, stop := e.watch(k)
		defer stop()
		e.extend(k, c, 0)
		e.wakes(changed)
	}},
	{"everyone who watches is woken", "the others would wait for nothing", func(e *env) {
		k, c := e.owned()
		var woken []<-chan struct{}
		for range 10 {
			changed, stop := e.watch(k)
			defer stop()
			woken = append(woken, changed)
		}
		e.complete(k, c, "receipt")
		for _, changed := range woken {
			e.wakes(changed)
		}
	}},
	{"who watches again is woken again", "the second attempt's waiters would wait for nothing", func(e *env) {
		k, c := e.owned()
		changed, stop := e.watch(k)
		e.release(k, c)
		e.wakes(changed)
		stop()
		next := e.claim()
		e.granted(k, next)
		changed, stop = e.watch(k)
		defer stop()
		e.complete(k, next, "receipt")
		e.wakes(changed)
	}},
	{"who stops does not stop the others", "one caller that hangs up would leave the rest waiting", func(e *env) {
		k, c := e.owned()
		_, stop1 := e.watch(k)
		changed, stop2 := e.watch(k)
		defer stop2()
		stop1()
		stop1()
		e.complete(k, c, "receipt")
		e.wakes(changed)
	}},
	{"stop may be called twice, before and after a wake", "a deferred stop would bring the process down", func(e *env) {
		k, c := e.owned()
		_, early := e.watch(k)
		changed, late := e.watch(k)
		early()
		early()
		e.complete(k, c, "receipt")
		e.wakes(changed)
		late()
		late()
	}},
}

// watch watches k, and ends the case if the store cannot wake anyone.
func (e *env) watch(k ibid.Digest) (<-chan struct{}, func()) {
	s, ok := ability[ibid.Notifier](e, "a Notifier")
	if !ok {
		return nil, func() {}
	}
	changed, stop, err := s.Watch(e.ctx, k)
	if err != nil {
		e.failf("Watch: %w", err)
		return nil, func() {}
	}
	return changed, stop
}

// wakes fails the case unless changed wakes within a hundred ticks.
func (e *env) wakes(changed <-chan struct{}) {
	if e.failed() {
		return
	}
	late := time.NewTimer(100 * e.tick)
	defer late.Stop()
	select {
	case <-changed:
	case <-late.C:
		e.failf("nobody was woken within %v", 100*e.tick)
	}
}
