package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/ibid-go/ibid"
)

// Case is one clause of the contract.
type Case struct {
	// Name is the clause: "the first caller owns the key".
	Name string
	// Why says what would break without it.
	Why string
	// Check opens a store of its own on target and returns what is wrong with
	// it. An error that is a Needs says that target cannot be put through the
	// case.
	Check func(ctx context.Context, target Target) error
	// Races is true when many call at once: a store that is wrong may then
	// pass now and again.
	Races bool
}

// Needs is what a target lacks to be put through a case: "needs a fake clock".
type Needs string

// Error implements error.
func (n Needs) Error() string { return "needs " + string(n) }

// What a target may lack, besides abilities of its store.
const (
	NeedsFakeClock = Needs("a fake clock")
	NeedsSecond    = Needs("Target.Second")
	NeedsCorrupt   = Needs("Target.Corrupt")
)

// Target is a store under test. Only Open is required.
type Target struct {
	// Open returns a store that holds nothing, and how to close it; nil closes
	// nothing. It is called once per case, and concurrently if Parallel is set.
	Open func(ctx context.Context) (store ibid.Store, close func() error, err error)
	// Advance returns once d has passed on the store's clock. Nil sleeps,
	// which inside a bubble of testing/synctest costs no time.
	Advance func(ctx context.Context, d time.Duration) error
	// FakeClock is true when the store's clock stands still between calls of
	// Advance.
	FakeClock bool
	// Tick is the unit of the leases and windows that cases let pass: five of
	// them are longer than a few calls of a busy store take. Default 100 ms.
	Tick time.Duration
	// Resolution is the shortest time that the store's clock tells apart.
	// Default 1 µs.
	Resolution time.Duration
	// Callers is how many call at once in a race. Default 100.
	Callers int
	// Parallel lets Run put the store through several cases at once.
	Parallel bool
	// Second opens another handle on the data of store, as another process
	// would. Nil where there is no such thing.
	Second func(ctx context.Context, store ibid.Store) (second ibid.Store, close func() error, err error)
	// Corrupt replaces the bytes that store keeps of key by what change makes
	// of them. Nil where they cannot be reached.
	Corrupt func(ctx context.Context, store ibid.Store, key ibid.Digest, change func([]byte) []byte) error
}

// Cases returns the contract, in reading order.
func Cases() []Case {
	var cases []Case
	for _, chapter := range []struct {
		clauses []clause
		races   bool
	}{
		{clauses: ownership},
		{clauses: replies},
		{clauses: takeovers},
		{clauses: leases},
		{clauses: zombies},
		{clauses: fences},
		{clauses: windows},
		{clauses: releases},
		{clauses: contents},
		{clauses: readings},
		{clauses: races, races: true},
		{clauses: contexts},
		{clauses: damages},
		{clauses: sweeps},
		{clauses: sweepRaces, races: true},
		{clauses: watches},
		{clauses: inspections},
		{clauses: checkpoints},
		{clauses: descriptions},
	} {
		for _, c := range chapter.clauses {
			cases = append(cases, Case{Name: c.name, Why: c.why, Check: c.run, Races: chapter.races})
		}
	}
	return cases
}

// clause is a Case as it is written in this package.
type clause struct {
	name, why string
	check     func(e *env)
}

func (c clause) run(ctx context.Context, target Target) error {
	if target.Tick <= 0 {
		target.Tick = 100 * time.Millisecond
	}
	if target.Resolution <= 0 {
		target.Resolution = time.Microsecond
	}
	if target.Callers <= 0 {
		target.Callers = 100
	}
	store, closeStore, err := target.Open(ctx)
	if err != nil {
		return err
	}
	e := &env{ctx: ctx, name: c.name, target: target, store: store, tick: target.Tick, start: time.Now()}
	e.guard(func() { c.check(e) })
	if closeStore != nil {
		if err := closeStore(); e.err == nil {
			e.err = err
		}
	}
	return e.err
}

// Report is what became of one case.
type Report struct {
	Name, Why string
	// Err is what is wrong with the store; nil if nothing, or if Needs is set.
	Err error
	// Needs is what the target lacks to be put through the case; empty if nothing.
	Needs Needs
	// Took is how long the case ran.
	Took time.Duration
}

// Check puts target through every case and reports on each. It stops early when
// ctx ends.
func Check(ctx context.Context, target Target) []Report {
	var reports []Report
	for _, c := range Cases() {
		if ctx.Err() != nil {
			break
		}
		start := time.Now()
		r := Report{Name: c.Name, Why: c.Why, Err: c.Check(ctx, target)}
		if errors.As(r.Err, &r.Needs) {
			r.Err = nil
		}
		r.Took = time.Since(start)
		reports = append(reports, r)
	}
	return reports
}

// T is what Run uses of a *testing.T.
type T[S any] interface {
	Run(name string, f func(S)) bool
	Parallel()
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Run puts target through every case, each as a subtest of t. A case that needs
// what target lacks is skipped, and says so.
func Run[S T[S]](t S, target Target) {
	t.Helper()
	RunIn(t, target, func(t S, check func(S)) { check(t) })
}

// RunIn is Run with each case inside bubble, which is synctest.Test where the
// target's clock is the process's own.
func RunIn[S T[S]](t S, target Target, bubble func(S, func(S))) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t S) {
			t.Helper()
			if target.Parallel {
				t.Parallel()
			}
			var err error
			bubble(t, func(t S) { err = c.Check(t.Context(), target) })
			var needs Needs
			switch {
			case errors.As(err, &needs):
				t.Skipf("%v", needs)
			case err != nil:
				t.Errorf("%v\nwhy: %s", err, c.Why)
			}
		})
	}
}
