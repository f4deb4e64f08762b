package ibid

import (
	"context"
	"errors"
	"time"
)

// run runs the work of a claim and settles it: completes, releases or gives up.
// Whichever way the work ends, by return, panic or Goexit, the claim is settled
// before run's caller goes on.
func (e *Engine) run(a *attempt, work Work) (data []byte, out Outcome, err error) {
	if err := a.parent.Err(); err != nil && !a.detached { // the caller went away while the key was claimed: nothing has run
		e.freeClaim(a)
		ev := a.event(EventCancelled)
		ev.Err = err
		e.emit(a, ev)
		return nil, a.outcome(), err
	}
	defer a.endContext()
	began := time.Now()
	a.startRenewing()
	returned := false
	defer func() {
		if returned {
			return
		}
		// A panic or Goexit goes on after this, with its own stack.
		a.stopRenewing()
		if a.op.policy.ReleaseOnPanic && !a.started.Load() {
			e.release(a)
			return
		}
		e.giveUp(a, errPanicked)
	}()
	data, err = a.work(work)
	returned = true
	a.stopRenewing()
	return e.settle(a, data, err, began)
}

var (
	errPanicked = errors.New("the work panicked or ended its goroutine")
	errProbe    = errors.New("the probe could not tell")
)

// vanishedError is an error after which nobody can tell whether the effect
// happened.
type vanishedError struct{ error }

func (v vanishedError) Unwrap() error { return v.error }

// notKeptError makes the engine record that the work completed and that its
// result is not kept.
type notKeptError struct{ cause error }

func (n *notKeptError) Error() string { return ErrNotKept.Error() + ": " + n.cause.Error() }

func (n *notKeptError) Unwrap() []error { return []error{ErrNotKept, n.cause} }

// work runs the work, or first the probe where an earlier attempt vanished.
func (a *attempt) work(work Work) ([]byte, error) {
	if a.Vanished > 0 && a.op.probe != nil {
		found, data, err := a.op.probe(a)
		switch {
		case err != nil:
			return nil, vanishedError{err}
		case found == FoundDone:
			return data, nil
		case found != FoundNotDone:
			return nil, vanishedError{errProbe}
		}
	}
	return work(a)
}

// settle records, releases or gives up, as the work ended.
func (e *Engine) settle(a *attempt, data []byte, err error, began time.Time) ([]byte, Outcome, error) {
	if err == nil {
		return e.record(a, ending{kind: kindValue, payload: data}, began)
	}
	var final *FinalError
	var notKept *notKeptError
	switch {
	case errors.As(err, &final):
		return e.record(a, ending{kind: kindFinal, payload: []byte(final.Message), live: final}, began)
	case errors.As(err, &notKept):
		return e.record(a, ending{kind: kindNotKept, live: err}, began)
	case a.preparation() != nil:
		return e.settlePrepared(a, err, began)
	case a.vanished(err):
		e.giveUp(a, err)
		return nil, a.outcome(), &UnknownError{Cause: err}
	}
	e.release(a)
	return nil, a.outcome(), err
}

// settlePrepared settles work that prepared its completion and then failed: its
// COMMIT may have been applied after all. The claim is ended first, which waits
// for a transaction that is still under way; then the record says what became of it.
func (e *Engine) settlePrepared(a *attempt, cause error, began time.Time) ([]byte, Outcome, error) {
	vanished := a.vanished(cause)
	if vanished {
		e.endClaim(a)
	} else {
		e.freeClaim(a)
	}
	rec, err := e.look(a.parent, a.Key)
	switch {
	case err == nil && rec.State == Completed && rec.Token == a.Token:
		data, out, _, err := e.read(&a.op, rec)
		out.Replayed = false
		ev := a.event(EventCompleted)
		ev.Size, ev.Took = len(data), time.Since(began)
		e.emit(a, ev)
		return data, out, err
	case err != nil || vanished:
		ev := a.event(EventGivenUp)
		ev.Err = cause
		e.emit(a, ev)
		return nil, a.outcome(), &UnknownError{Cause: cause}
	}
	e.emit(a, a.event(EventReleased))
	return nil, a.outcome(), cause
}

// vanished reports whether err leaves open whether the effect happened.
func (a *attempt) vanished(err error) bool {
	var v vanishedError
	return a.started.Load() || errors.As(err, &v) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		!time.Now().Before(a.deadline)
}

// release frees the key; when the store does not acknowledge that, it is owed.
func (e *Engine) release(a *attempt) {
	e.emit(a, a.event(EventReleased))
	e.freeClaim(a)
}

func (e *Engine) freeClaim(a *attempt) {
	e.oweNow(a, "release", func(ctx context.Context) error {
		return e.store.Release(ctx, a.Key, a.Token)
	})
}

// giveUp ends the claim without saying that nothing happened.
func (e *Engine) giveUp(a *attempt, cause error) {
	ev := a.event(EventGivenUp)
	ev.Err = cause
	e.emit(a, ev)
	e.endClaim(a)
}

func (e *Engine) endClaim(a *attempt) {
	e.oweNow(a, "extend", func(ctx context.Context) error {
		err := e.store.Extend(ctx, a.Key, a.Token, 0)
		if errors.Is(err, ErrClaimLost) {
			return nil
		}
		return err
	})
}

// runGuarded runs work that no claim protects.
func (e *Engine) runGuarded(ctx context.Context, op *operation, work Work, cause error) ([]byte, Outcome, error) {
	a := &attempt{
		Attempt: Attempt{Key: op.digest, Guard: op.policy.Guard},
		op:      *op, engine: e, parent: ctx, detached: op.policy.Detach, deadline: time.Now().Add(op.policy.MaxRun),
	}
	ev := a.event(EventDegraded)
	ev.Guard, ev.Err = op.policy.Guard, cause
	e.emit(ctx, ev)
	defer a.endContext()
	timer := time.AfterFunc(op.policy.MaxRun, func() { a.cancelWork(ErrMaxRun) })
	defer timer.Stop()
	data, err := work(a)
	var final *FinalError
	var notKept *notKeptError
	switch {
	case errors.As(err, &final):
		err = final
	case err != nil && !errors.As(err, &notKept) && a.vanished(err):
		err = &UnknownError{Cause: err}
	}
	return data, Outcome{Guard: op.policy.Guard}, err
}

func (a *attempt) outcome() Outcome {
	return Outcome{Attempt: a.Number, Fence: a.Fence, Guard: a.Guard}
}

func (a *attempt) event(kind EventKind) Event {
	return Event{Kind: kind, Key: a.Key, Scope: a.op.scope, Attempt: a.Number, Fence: a.Fence}
}
