package ibid

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels. Test for them with errors.Is.
var (
	// ErrInvalid reports that an option, a key or a call cannot be used as
	// given; the text names the field. Nothing ran. The caller must change what
	// it asks for.
	ErrInvalid = errors.New("ibid: invalid")

	// ErrInProgress reports that another attempt holds the key. Nothing ran.
	// The caller asks again after InProgressError.RetryAfter.
	ErrInProgress = errors.New("ibid: in progress")

	// ErrMismatch reports that the key was used for another request. Nothing
	// ran. The caller uses a new key, or repairs the request.
	ErrMismatch = errors.New("ibid: key was used for another request")

	// ErrUnknown reports that an attempt vanished or failed after its effect
	// had started, so that it cannot be told whether the effect happened. Nothing
	// ran. The caller must not count it as a failure; it stays until the
	// owner still completes, or the key is resolved (Engine.Resolve).
	ErrUnknown = errors.New("ibid: outcome unknown")

	// ErrDuplicate reports that a mark was made by an earlier transaction
	// (Engine.Marked). The caller writes nothing, and counts the message as done.
	ErrDuplicate = errors.New("ibid: duplicate")

	// ErrExpired reports that the key was completed, that its result is no
	// longer kept, and that it is still remembered. Nothing ran. The caller
	// looks the outcome up elsewhere, or begins a new operation under a new key.
	ErrExpired = errors.New("ibid: key expired")

	// ErrNotKept reports that the work completed, and that its result was too
	// large, or of a kind, to be kept. Nothing ran again.
	ErrNotKept = errors.New("ibid: completed, result not kept")

	// ErrNotRecorded reports that the work ran and that the store has not
	// acknowledged its result. The engine goes on trying. The caller asks again
	// with the same key.
	ErrNotRecorded = errors.New("ibid: result not recorded yet")

	// ErrClaimLost reports that a token no longer stands: another attempt took
	// over, or the key was resolved or forgotten. It is also the cause of the
	// work's context when that happens. Work that sees it stops, and undoes
	// nothing.
	ErrClaimLost = errors.New("ibid: claim lost")

	// ErrMaxRun is the cause of the work's context when MaxRun is over.
	ErrMaxRun = errors.New("ibid: MaxRun is over")

	// ErrAttempts reports that the key has had as many attempts as it may have,
	// and that the last one reported that it had no effect. Nothing ran. The caller
	// gives up, or begins a new operation under a new key.
	ErrAttempts = errors.New("ibid: too many attempts")

	// ErrUnavailable reports that the store could not be asked, and that nothing
	// ran. The caller asks again later; the store's own error is reachable
	// with errors.As.
	ErrUnavailable = errors.New("ibid: store unavailable")

	// ErrFull reports that the store holds as many records as it may, and
	// accepts no new key. Replays are still served. It is wrapped in an
	// ErrUnavailable.
	ErrFull = errors.New("ibid: store is full")

	// ErrTooLarge is returned by a store's Complete for a result it can never
	// keep. The engine records instead that the result was not kept.
	ErrTooLarge = errors.New("ibid: result too large for the store")

	// ErrDamaged reports that a record could not be read, decrypted or
	// understood. Nothing ran, and nothing will until someone forgets the key.
	ErrDamaged = errors.New("ibid: record damaged or not understood")

	// ErrDraining reports that the engine is being shut down and claims
	// nothing new. The caller asks another process.
	ErrDraining = errors.New("ibid: draining")
)

// InProgressError is the ErrInProgress that says when to ask again.
type InProgressError struct {
	// RetryAfter is how long to wait before asking again; more than zero.
	RetryAfter time.Duration
	// Lease is how long the claim still holds without renewal.
	Lease time.Duration
}

// Error implements error.
func (e *InProgressError) Error() string {
	return fmt.Sprintf("%v: ask again in %v", ErrInProgress, e.RetryAfter)
}

// Is reports whether target is ErrInProgress.
func (e *InProgressError) Is(target error) bool { return target == ErrInProgress }

// UnknownError is the ErrUnknown that carries what the attempt of this call
// returned, if this call ran one.
type UnknownError struct {
	// Cause is the error of this call's own attempt; nil when an earlier
	// attempt left the outcome unknown.
	Cause error
}

// Error implements error.
func (e *UnknownError) Error() string {
	if e.Cause == nil {
		return ErrUnknown.Error()
	}
	return fmt.Sprintf("%v: %v", ErrUnknown, e.Cause)
}

// Is reports whether target is ErrUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns Cause.
func (e *UnknownError) Unwrap() error { return e.Cause }

// StoreError is a failure of the store. It is ErrUnavailable, or ErrDamaged
// when that is what the store reported.
type StoreError struct {
	// Verb is what the engine asked for: "begin", "look", "complete".
	Verb string
	// Err is the store's own error.
	Err error
}

// Error implements error.
func (e *StoreError) Error() string { return "ibid: " + e.Verb + ": " + e.Err.Error() }

// Is reports whether target is the sentinel this failure stands for.
func (e *StoreError) Is(target error) bool {
	return target == ErrUnavailable && !errors.Is(e.Err, ErrDamaged)
}

// Unwrap returns the store's own error.
func (e *StoreError) Unwrap() error { return e.Err }

// FinalError is a failure that was recorded: every later call gets it too.
type FinalError struct {
	// Message is the text of the error, as it was recorded.
	Message string
	// Err is the error that the work returned; nil on a replay.
	Err error
}

// Error implements error.
func (e *FinalError) Error() string { return e.Message }

// Unwrap returns Err.
func (e *FinalError) Unwrap() error { return e.Err }

// Final marks err as the operation's result: it is recorded, and every later
// call gets it as a FinalError with the same text. Without it a failed attempt
// releases the key and the next call runs the work again. Final of nil is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &FinalError{Message: err.Error(), Err: err}
}
