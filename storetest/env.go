package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// long is a lease or window that no case sees the end of.
const long = 24 * time.Hour

// env is one case at work. The first failure stands: after it, nothing more is
// asked of the store, and every answer is the zero value.
type env struct {
	ctx    context.Context
	name   string
	target Target
	store  ibid.Store
	tick   time.Duration
	start  time.Time
	keys   int        // given out
	mu     sync.Mutex // of err, which callers in a race may set
	err    error
}

func (e *env) failed() bool { return e.err != nil }

func (e *env) failf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// guard makes a failure of a panic in f: a store that panics must not end the
// suite.
func (e *env) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			e.failf("the store panics: %v", p)
		}
	}()
	f()
}

// want fails the case unless ok.
func (e *env) want(ok bool, format string, args ...any) {
	if !ok {
		e.failf(format, args...)
	}
}

// fake reports whether the clock is fake, and ends the case if not.
func (e *env) fake() bool {
	if !e.target.FakeClock && e.err == nil {
		e.err = NeedsFakeClock
	}
	return e.err == nil
}

// ability finds an ability of the store, and ends the case if it has none.
func ability[A any](e *env, name string) (A, bool) {
	a, ok := ibid.As[A](e.store)
	if !ok && e.err == nil {
		e.err = Needs("a store that is " + name)
	}
	return a, e.err == nil
}

// pass lets d pass on the store's clock.
func (e *env) pass(d time.Duration) {
	if e.failed() {
		return
	}
	if e.target.Advance == nil {
		time.Sleep(d)
		return
	}
	if err := e.target.Advance(e.ctx, d); err != nil {
		e.failf("advance the clock: %w", err)
	}
}

// key returns a key that no other case uses, and the same in every run.
func (e *env) key() ibid.Digest {
	e.keys++
	return sha256.Sum256(fmt.Appendf(nil, "%s %d", e.name, e.keys))
}

// claim returns a claim with a token of its own that takes nothing over.
func (e *env) claim() ibid.Claim {
	return ibid.Claim{
		Token:       ibid.NewToken(),
		Fingerprint: ibid.Fingerprint{0xf1},
		Scope:       ibid.Digest{0x5c},
		Lease:       long,
		Window:      long,
	}
}

// taker returns a claim that takes over whatever vanished.
func (e *env) taker() ibid.Claim {
	c := e.claim()
	c.MaxTakeovers = -1
	return c
}

func (e *env) begin(k ibid.Digest, c ibid.Claim) ibid.Record {
	if e.failed() {
		return ibid.Record{}
	}
	r, err := e.store.Begin(e.ctx, k, c)
	if err != nil {
		e.failf("Begin: %w", err)
	}
	return r
}

// granted begins and fails the case unless the claim is the caller's.
func (e *env) granted(k ibid.Digest, c ibid.Claim) ibid.Record {
	r := e.begin(k, c)
	e.want(r.OwnedBy(c.Token), "Begin was not granted the key: %s", show(r))
	return r
}

// refused begins and fails the case unless the store shows a record in state
// that is not the caller's.
func (e *env) refused(k ibid.Digest, c ibid.Claim, state ibid.State) ibid.Record {
	r := e.begin(k, c)
	e.want(!r.OwnedBy(c.Token), "Begin was granted the key: %s", show(r))
	e.want(r.State == state, "Begin shows %s, want %v", show(r), state)
	return r
}

// owned claims a new key.
func (e *env) owned() (ibid.Digest, ibid.Claim) {
	k, c := e.key(), e.claim()
	e.granted(k, c)
	return k, c
}

// abandoned claims a new key and gives the claim up.
func (e *env) abandoned() (ibid.Digest, ibid.Claim) {
	k, c := e.owned()
	e.extend(k, c, 0)
	return k, c
}

// completed claims a new key and completes it.
func (e *env) completed(result string) (ibid.Digest, ibid.Claim) {
	k, c := e.owned()
	e.complete(k, c, result)
	return k, c
}

func (e *env) look(k ibid.Digest) ibid.Record {
	if e.failed() {
		return ibid.Record{}
	}
	r, err := e.store.Look(e.ctx, k)
	if err != nil {
		e.failf("Look: %w", err)
	}
	return r
}

// state looks and fails the case unless k is in state.
func (e *env) state(k ibid.Digest, state ibid.State) ibid.Record {
	r := e.look(k)
	e.want(r.State == state, "Look shows %s, want %v", show(r), state)
	return r
}

// answers looks and fails the case unless k is completed with result.
func (e *env) answers(k ibid.Digest, result string) ibid.Record {
	r := e.state(k, ibid.Completed)
	e.want(string(r.Result) == result, "the result is %.40q, want %.40q", r.Result, result)
	return r
}

func (e *env) extend(k ibid.Digest, c ibid.Claim, lease time.Duration) {
	if e.failed() {
		return
	}
	if err := e.store.Extend(e.ctx, k, c.Token, lease); err != nil {
		e.failf("Extend(%v): %w", lease, err)
	}
}

func (e *env) complete(k ibid.Digest, c ibid.Claim, result string) {
	e.completeFor(k, c, result, ibid.Keep{Retain: long})
}

func (e *env) completeFor(k ibid.Digest, c ibid.Claim, result string, keep ibid.Keep) {
	if e.failed() {
		return
	}
	if err := e.store.Complete(e.ctx, k, c.Token, []byte(result), keep); err != nil {
		e.failf("Complete: %w", err)
	}
}

func (e *env) release(k ibid.Digest, c ibid.Claim) {
	if e.failed() {
		return
	}
	if err := e.store.Release(e.ctx, k, c.Token); err != nil {
		e.failf("Release: %w", err)
	}
}

func (e *env) checkpoint(k ibid.Digest, c ibid.Claim, steps string) {
	if s, ok := ability[ibid.Checkpointer](e, "a Checkpointer"); ok {
		if err := s.Checkpoint(e.ctx, k, c.Token, []byte(steps)); err != nil {
			e.failf("Checkpoint: %w", err)
		}
	}
}

// The writes of a token that must not stand.

func (e *env) loseExtend(k ibid.Digest, t ibid.Token, lease time.Duration) {
	if !e.failed() {
		e.lost("Extend", e.store.Extend(e.ctx, k, t, lease))
	}
}

func (e *env) loseComplete(k ibid.Digest, t ibid.Token, result string) {
	if !e.failed() {
		e.lost("Complete", e.store.Complete(e.ctx, k, t, []byte(result), ibid.Keep{Retain: long}))
	}
}

func (e *env) loseCheckpoint(k ibid.Digest, t ibid.Token) {
	if s, ok := ability[ibid.Checkpointer](e, "a Checkpointer"); ok {
		e.lost("Checkpoint", s.Checkpoint(e.ctx, k, t, []byte("zombie")))
	}
}

func (e *env) lost(verb string, err error) {
	e.want(errors.Is(err, ibid.ErrClaimLost), "%s by a token that does not stand: %v, want ErrClaimLost", verb, err)
}

// near fails the case unless got is what is left of want: not more, and not
// less than the case has run.
func (e *env) near(what string, got, want time.Duration) {
	if e.failed() {
		return
	}
	slack := time.Since(e.start) + 2*e.target.Resolution
	if e.target.FakeClock {
		slack = 2 * e.target.Resolution
	}
	e.want(got <= want+2*e.target.Resolution && got >= want-slack, "%s is %v, want %v", what, got, want)
}

// unchanged fails the case unless k is as it was, but for the time d that has
// passed at least.
func (e *env) unchanged(k ibid.Digest, was ibid.Record, d time.Duration) {
	is := e.look(k)
	if e.failed() {
		return
	}
	e.near("what is left of the window", is.Window, max(was.Window-d, 0))
	e.near("what is left of the lease", is.Lease, max(was.Lease-d, 0))
	is.Window, is.Lease, was.Window, was.Lease = 0, 0, 0, 0
	e.want(reflect.DeepEqual(plain(is), plain(was)), "the record changed from %s to %s", show(was), show(is))
}

// plain makes nil of empty bytes, which a record does not tell apart, but for
// the result of a completed one.
func plain(r ibid.Record) ibid.Record {
	for _, b := range []*[]byte{&r.Label, &r.Steps, &r.Result} {
		if len(*b) == 0 {
			*b = nil
		}
	}
	return r
}

// race runs f n times at once and returns when all have returned.
func (e *env) race(n int, f func(i int)) {
	if e.failed() {
		return
	}
	var done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		done.Go(func() {
			<-start
			e.guard(func() { f(i) })
		})
	}
	close(start)
	done.Wait()
}

// beginners lets n callers begin k at once and returns how many own it.
func (e *env) beginners(k ibid.Digest, n int) (owners int) {
	records, errs, claims := make([]ibid.Record, n), make([]error, n), make([]ibid.Claim, n)
	for i := range claims {
		claims[i] = e.taker()
	}
	e.race(n, func(i int) { records[i], errs[i] = e.store.Begin(e.ctx, k, claims[i]) })
	for i := range n {
		if errs[i] != nil {
			e.failf("Begin: %w", errs[i])
		}
		if records[i].OwnedBy(claims[i].Token) {
			owners++
		}
	}
	return owners
}

// show prints what a reader needs of a record.
func show(r ibid.Record) string {
	return fmt.Sprintf("{%v token=%.8s fence=%d attempt=%d vanished=%d generation=%d fingerprint=%x lease=%v window=%v result=%.20q steps=%.20q label=%.20q}",
		r.State, r.Token, r.Fence, r.Attempt, r.Vanished, r.Generation, r.Fingerprint[:4], r.Lease, r.Window, r.Result, r.Steps, r.Label)
}
