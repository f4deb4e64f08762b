package ibidclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Sentinels: why no further attempt was made. Test for them with errors.Is.
// What a server reports by a problem type is the sentinel of package ibid:
// ibid.ErrInProgress, ibid.ErrMismatch, ibid.ErrUnknown and so on.
var (
	// ErrWindowOver reports that the server may have forgotten the key: a
	// further attempt could be a new operation. The caller finds out what became
	// of this one by other means, and only then begins a new one.
	ErrWindowOver = errors.New("the server's window for the key is over")

	// ErrExhausted reports that the attempts or the time of the operation are
	// used up. The caller may go on later, under the same key.
	ErrExhausted = errors.New("attempts or time used up")

	// ErrBudget reports that the retry budget of the transport is empty. The
	// caller may go on later, under the same key.
	ErrBudget = errors.New("retry budget empty")

	// ErrSentOnce reports that the request's body cannot be sent a second time:
	// it has no GetBody and is longer than Options.MaxBody. The caller makes the
	// same request anew, under the same key.
	ErrSentOnce = errors.New("body can be sent only once")

	// ErrAttemptTimeout reports that one attempt took longer than it may.
	ErrAttemptTimeout error = timeoutError{}
)

type timeoutError struct{}

func (timeoutError) Error() string { return "attempt timed out" }
func (timeoutError) Timeout() bool { return true }

// Outcome is what can be said of an operation that has no usable answer.
type Outcome uint8

const (
	// Unknown: it may have been executed, or still be in progress. Only a
	// request under the same key finds out.
	Unknown Outcome = iota
	// NotExecuted: it was definitely not executed, and may be asked for again.
	NotExecuted
	// Refused: it was not executed, and the same request would be refused
	// again.
	Refused
	// Completed: it was executed. What is missing is its answer.
	Completed
)

// String returns the outcome in words.
func (o Outcome) String() string {
	names := [...]string{"outcome unknown", "not executed", "refused", "completed, answer missing"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Error is a request without a usable answer. It unwraps to Reason, to Err, and to
// the sentinel of package ibid that the server's problem type stands for.
type Error struct {
	// Outcome is what the caller decides by.
	Outcome Outcome
	// Key is what to ask again under, where that makes sense. "" where the request had none.
	Key string
	// Attempts is how often the request was sent, as far as that was seen at the wire.
	Attempts int
	// Status is that of the last response; 0 when there was none.
	Status int
	// Type is the problem type, or the error code, of the last response; ""
	// when it had none that is understood.
	Type string
	// RetryAfter is how long the server asked to wait; 0 when it did not say.
	RetryAfter time.Duration
	// Window is for how long the key may still be used; 0 when that is over, negative when there is no end.
	Window time.Duration
	// Reason is why no further attempt was made: one of the sentinels, an error of
	// the context, or nil when the last answer was final.
	Reason error
	// Err is what went wrong with the last attempt, where it has no response.
	Err error

	kind error // the sentinel that Type stands for
}

// Error implements error. It does not show the key, which may be personal.
func (e *Error) Error() string {
	s := "ibidclient: " + e.Outcome.String()
	switch {
	case e.Attempts == 1:
		s += " after 1 attempt"
	case e.Attempts > 1:
		s += fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	if e.Reason != nil {
		s += ": " + e.Reason.Error()
	}
	if e.Status != 0 {
		s += fmt.Sprintf(": status %d", e.Status)
	}
	if e.Type != "" {
		s += " (" + e.Type + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Reason, Err and the sentinel of Type, those that are set.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 3)
	for _, err := range [...]error{e.Reason, e.Err, e.kind} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// Timeout reports whether the last attempt, or the caller's context, timed out.
func (e *Error) Timeout() bool {
	for _, err := range [...]error{e.Reason, e.Err} {
		var t interface{ Timeout() bool }
		if errors.As(err, &t) && t.Timeout() {
			return true
		}
	}
	return errors.Is(e.Reason, context.DeadlineExceeded)
}

// Check makes one error of what http.Client.Do returned: nil for an answer
// below 400 (but not for a 202 that says only that the operation is in
// progress), and otherwise an error in which errors.As always finds an *Error.
// The response stays open, and its body unread.
//
// An error that does not come from a Transport is Unknown.
func Check(resp *http.Response, err error) error {
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return err
		}
		return &Error{Outcome: Unknown, Err: err}
	}
	if op := operationOf(resp); op != nil {
		if op.last.success {
			return nil
		}
		return op.failure(op.reason, nil)
	}
	v := classify(resp, DefaultReplayMarker)
	if v.success {
		return nil
	}
	return &Error{
		Outcome: v.outcome, Status: resp.StatusCode, Type: v.name, kind: v.kind,
		RetryAfter: max(retryAfter(resp), 0),
	}
}
