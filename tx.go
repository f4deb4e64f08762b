package ibid

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Transactional mode, as a policy: the key is claimed inside the transaction
// that the work writes in, and one COMMIT makes record, result and writes true
// together.
//
//   - The work reports success: result and writes are committed.
//   - It reports a failure marked with Final, or called UndoWrites: its writes are rolled back, and
//     the result alone is committed.
//   - It reports another failure, or vanishes: everything is rolled back, as if
//     the attempt had never been. A serialization failure or deadlock begins again.
//   - The outcome of COMMIT is unknown: the record is looked up, and the work
//     never runs again for it.

// TxStore is a store whose records can be written in the transaction of the
// work. Its transactions and its other verbs see the same records.
type TxStore interface {
	// BeginTx opens a transaction and claims key in it, as Begin does. It waits
	// up to wait for another transaction that holds the key; 0 or less does not
	// wait. Tx is nil, and the transaction ended, when the claim was not granted;
	// a key that another transaction holds is InProgress.
	BeginTx(ctx context.Context, key Digest, claim Claim, wait time.Duration) (Tx, Record, error)
}

// Tx is a transaction that holds a claim. It ends with Commit or Rollback.
type Tx interface {
	// Context returns ctx with the transaction in it, for the store's accessor.
	Context(ctx context.Context) context.Context
	// Commit records result and commits. With undo the work's writes are rolled
	// back first. nil means committed; ErrCommitUnknown that it cannot be told;
	// ErrTxAgain that nothing was committed and the transaction may be run
	// again; any other error that nothing was committed.
	Commit(ctx context.Context, result []byte, keep Keep, undo bool) error
	// Rollback ends the transaction without a trace. It may be called after
	// Commit, and then does nothing.
	Rollback(ctx context.Context) error
	// Again reports whether err, returned by the work, is a serialization
	// failure or a deadlock that ended the transaction.
	Again(err error) bool
}

var (
	// ErrCommitUnknown is returned by Tx.Commit when the connection was lost
	// before the reply to COMMIT. The engine looks the record up.
	ErrCommitUnknown = errors.New("ibid: outcome of COMMIT unknown")

	// ErrTxAgain is returned by Tx.Commit when a serialization failure or a
	// deadlock ended the transaction. The engine runs it again, up to three
	// times.
	ErrTxAgain = errors.New("ibid: transaction must be run again")
)

// txTries bounds how often a transaction is run for one call.
const txTries = 4

// UndoWrites says that the writes of this attempt are to be rolled back, and
// its result kept all the same: a refusal that was decided half-way. In lease mode, and
// outside of work, it does nothing.
func UndoWrites(ctx context.Context) {
	if a := attemptFrom(ctx); a != nil {
		a.undone.Store(true)
	}
}

// doTx is Do in transactional mode, for the call of its key that leads in this
// process: the others wait in memory, so that a storm on one key holds no more
// than two of the pool's connections.
func (e *Engine) doTx(ctx context.Context, op *operation, work Work, began time.Time) ([]byte, Outcome, error) {
	for try := 1; ; try++ {
		if e.gate.closed() {
			return e.drained(ctx, op)
		}
		tx, a, rec, err := e.beginTx(ctx, op, op.policy.Wait-time.Since(began))
		switch {
		case err != nil:
			return e.refuse(ctx, op, work, err)
		case tx == nil:
			e.flights.publish(op.digest, rec)
			return e.answer(ctx, op, rec)
		}
		data, out, err := e.runTx(a, tx, work)
		if !errors.Is(err, ErrTxAgain) {
			return data, out, err
		}
		if try == txTries || sleep(ctx, jitter(time.Duration(try)*10*time.Millisecond)) != nil {
			ev := a.event(EventReleased)
			ev.Err = err
			e.emit(ctx, ev)
			return nil, out, &StoreError{Verb: "commit", Err: err}
		}
	}
}

func (e *Engine) beginTx(ctx context.Context, op *operation, wait time.Duration) (Tx, *attempt, Record, error) {
	claim := e.claim(op)
	limit := bound(ctx, e.opts.StoreTimeout+max(wait, 0))
	defer limit.end()
	asked := time.Now()
	tx, rec, err := op.tx.BeginTx(limit, op.digest, claim, wait)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, rec, ctx.Err()
		}
		e.emit(ctx, Event{Kind: EventStoreError, Verb: "begin", Key: op.digest, Scope: op.scope, Err: err, Took: time.Since(asked)})
		return nil, nil, rec, &StoreError{Verb: "begin", Err: err}
	}
	if tx == nil {
		return nil, nil, rec, nil
	}
	return tx, e.newAttempt(tx.Context(ctx), op, rec, asked), rec, nil
}

// runTx runs the work in tx and ends tx. ErrTxAgain ends no call, and is told to no observer.
func (e *Engine) runTx(a *attempt, tx Tx, work Work) ([]byte, Outcome, error) {
	defer a.endContext()
	began := time.Now()
	timer := time.AfterFunc(a.op.policy.MaxRun, func() { a.cancelWork(ErrMaxRun) })
	defer timer.Stop()
	returned := false
	defer func() {
		e.rollback(a, tx) // nothing after a commit
		if !returned {
			ev := a.event(EventReleased)
			ev.Err = errPanicked
			e.emit(a, ev)
		}
	}()
	data, err := work(a)
	returned = true
	o := ending{kind: kindValue, payload: data}
	var final *FinalError
	var notKept *notKeptError
	switch {
	case err == nil:
	case errors.As(err, &final):
		o = ending{kind: kindFinal, payload: []byte(final.Message), live: final}
		a.undone.Store(true)
	case errors.As(err, &notKept):
		o = ending{kind: kindNotKept, live: err}
	default:
		if tx.Again(err) {
			return nil, a.outcome(), fmt.Errorf("%w: %w", ErrTxAgain, err)
		}
		ev := a.event(EventReleased)
		if a.started.Load() { // an effect outside of the transaction
			ev.Kind, ev.Err = EventGivenUp, err
			err = &UnknownError{Cause: err}
		}
		e.emit(a, ev)
		return nil, a.outcome(), err
	}
	o.sealed = e.sealer.seal(a.Key, o.kind, o.payload)
	return e.commit(a, tx, o, time.Since(began))
}

// commit records o and commits, whatever becomes of the caller meanwhile.
func (e *Engine) commit(a *attempt, tx Tx, o ending, took time.Duration) ([]byte, Outcome, error) {
	limit := boundDetached(a.parent, e.opts.AnswerTimeout)
	defer limit.end()
	err := tx.Commit(limit, o.sealed, a.keep(), a.undone.Load())
	if errors.Is(err, ErrCommitUnknown) {
		e.emit(a, Event{Kind: EventStoreError, Verb: "commit", Key: a.Key, Scope: a.op.scope, Err: err})
		err = e.lookUpCommit(a)
	}
	if err == nil {
		ev := a.event(EventCompleted)
		ev.Size, ev.Took = len(o.payload), took
		return e.completed(a, o, ev)
	}
	ev := a.event(EventReleased)
	ev.Err = err
	out := a.outcome()
	switch {
	case errors.Is(err, ErrClaimLost):
		ev.Kind = EventClaimLost
		e.emit(a, ev)
		return e.lost(a)
	case errors.Is(err, ErrCommitUnknown):
		ev.Kind = EventNotRecorded
		err = fmt.Errorf("%w: %w", ErrNotRecorded, &StoreError{Verb: "commit", Err: err})
	case errors.Is(err, ErrTxAgain):
		return nil, out, err
	default:
		err = &StoreError{Verb: "commit", Err: err}
	}
	e.emit(a, ev)
	return nil, out, err
}

// lookUpCommit asks for the key until it is known what became of the
// transaction of a: nil when it was committed. A claim that is granted proves
// that it was not, and is rolled back.
func (e *Engine) lookUpCommit(a *attempt) error {
	end := time.Now().Add(e.opts.AnswerTimeout)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		limit := boundDetached(a.parent, time.Until(end))
		tx, rec, err := a.op.tx.BeginTx(limit, a.Key, e.claim(&a.op), time.Until(end))
		limit.end()
		switch {
		case err == nil && tx != nil:
			e.rollback(a, tx)
			return errRolledBack
		case err == nil && rec.State == Completed && rec.Token == a.Token:
			return nil
		case err == nil && rec.State != InProgress:
			return ErrClaimLost
		}
		next := jitter(pause)
		if time.Until(end) <= next {
			if err == nil { // the transaction is still under way
				return ErrCommitUnknown
			}
			return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
		}
		time.Sleep(next)
	}
}

var errRolledBack = errors.New("the connection was lost during COMMIT, and nothing was committed")

func (e *Engine) rollback(a *attempt, tx Tx) {
	limit := boundDetached(a.parent, e.opts.StoreTimeout)
	defer limit.end()
	if err := tx.Rollback(limit); err != nil {
		e.emit(a, Event{Kind: EventStoreError, Verb: "rollback", Key: a.Key, Scope: a.op.scope, Err: err})
	}
}
