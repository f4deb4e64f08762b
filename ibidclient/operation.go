package ibidclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ibid-go/ibid"
)

// operation is one request with all its attempts. It is the context of the
// attempts, so that their responses lead back to it.
type operation struct {
	context.Context // the caller's

	t           *Transport
	req         *http.Request // the caller's
	header      http.Header   // what every attempt sends
	key         string        // "" for a safe method
	bound       *bound        // where the key is the context's
	fingerprint ibid.Fingerprint
	source      source

	start time.Time // of the request
	since time.Time // when the key was first used, as far as that is known
	end   time.Time // when the server forgets the key; zero for never

	attempts int           // calls of the base transport
	sends    int           // how often the request was seen at the wire
	maybe    bool          // an earlier attempt may have been executed
	hurried  bool          // a broken connection was answered by an attempt without a wait
	last     verdict       // of the last attempt
	status   int           // of the last response; 0 for none
	wait     time.Duration // what that response asked for; negative for nothing
	reason   error         // why there is no further attempt

	journaled bool // the journal keeps the operation
	final     bool // the answer is the caller's
	first     attempt
	answer    answer
}

type operationKey struct{}

// Value implements context.Context.
func (op *operation) Value(key any) any {
	if key == (operationKey{}) {
		return op
	}
	return op.Context.Value(key)
}

// begin prepares for the first attempt: nothing has been sent yet, and an error
// means that nothing is.
func (op *operation) begin() error {
	op.start = time.Now()
	if op.key == "" {
		return nil
	}
	if op.since.IsZero() {
		op.since = op.start
	}
	o := &op.t.options
	if op.bound != nil || o.Journal != nil {
		var err error
		if op.fingerprint, err = op.source.fingerprint(op.req); err != nil {
			return err
		}
	}
	if op.bound != nil {
		since, end, err := op.bound.use(op.fingerprint, op.start)
		if err != nil {
			return err
		}
		op.maybe = since.Before(op.start)
		op.since, op.end = since, end
	}
	if o.Journal != nil {
		if err := op.keep(o.Journal); err != nil {
			return err
		}
	}
	if op.end.IsZero() && o.Window > 0 {
		op.end = op.since.Add(usable(o.Window))
	}
	if !op.end.IsZero() && !op.start.Before(op.end) {
		return ErrWindowOver
	}
	return nil
}

// keep has the journal keep the operation.
func (op *operation) keep(j Journal) error {
	label, _ := op.Value(labelKey{}).(string)
	u := *op.req.URL
	u.User = nil
	stands, earlier, err := j.Keep(op, Entry{
		Key: op.key, Label: label, Method: method(op.req), URL: u.String(), Fingerprint: op.fingerprint,
	})
	if err != nil {
		return &journalError{err}
	}
	op.journaled = true
	if !earlier {
		return nil
	}
	if stands.Fingerprint != op.fingerprint {
		return errJournalMismatch
	}
	op.maybe = true
	if since := op.start.Add(-stands.Age); since.Before(op.since) {
		op.since = since
	}
	return nil
}

// run makes attempts until one is final, or no further one may be made.
func (op *operation) run() (*http.Response, error) {
	if op.source.kind == sourceOnce {
		op.observe(Event{Kind: EventSentOnce}, nil)
	}
	for a := &op.first; ; a = new(attempt) {
		if err := a.prepare(op, op.limit()); err != nil {
			return op.fail(err, nil)
		}
		op.attempts++
		resp, err := op.t.options.Base.RoundTrip(&a.req)
		resp, err = op.judge(a, resp, err)
		if !op.last.again {
			return op.finish(a, resp, err, nil)
		}
		wait := op.delay(a.broken(err))
		if reason := op.stop(wait); reason != nil {
			return op.finish(a, resp, err, reason)
		}
		op.observe(Event{Kind: EventRetry, Wait: wait, Err: err}, resp)
		if resp != nil {
			drop(resp)
		}
		a.end()
		if ctxErr := op.sleep(wait); ctxErr != nil {
			return op.fail(ctxErr, err)
		}
	}
}

// judge notes what came of an attempt. It returns the response, or the error
// that stands in for it.
func (op *operation) judge(a *attempt, resp *http.Response, err error) (*http.Response, error) {
	o := &op.t.options
	sends := a.sends(o.Base, err)
	op.sends += sends
	if sends > 1 {
		op.observe(Event{Kind: EventResent}, nil)
	}
	if err == nil {
		if resp.Body == nil {
			resp.Body = http.NoBody
		}
		resp.Request = &a.req
		if err = op.readAhead(a, resp); err != nil {
			resp = nil
		}
	} else {
		resp = nil
	}
	if err != nil && op.Err() == nil && errors.Is(context.Cause(a.ctx), ErrAttemptTimeout) {
		err = ErrAttemptTimeout
	}
	op.maybe = op.maybe || op.attempts > 1 && op.last.outcome != NotExecuted && op.last.outcome != Refused
	op.status, op.wait = 0, -1
	if resp == nil {
		op.last = verdict{outcome: Unknown, again: op.Err() == nil}
		if sends == 0 {
			op.last.outcome = NotExecuted
		}
	} else {
		op.last = classify(resp, o.ReplayMarker)
		if op.status = resp.StatusCode; !op.last.success {
			op.wait = retryAfter(resp)
		}
		op.expires(a, resp)
		if o.Retry != nil {
			op.overrule(o.Retry(resp, op.last.again))
		}
	}
	if len(o.Observe) > 0 {
		op.observe(Event{Kind: EventAttempt, Took: time.Since(a.start), Err: err}, resp)
	}
	return resp, err
}

// overrule replaces what the rules say about retrying.
func (op *operation) overrule(again bool) {
	if op.last.again && !again && op.status < http.StatusBadRequest {
		op.last = verdict{success: true}
	}
	op.last.again = again
}

// expires notes for how long the server says that it knows the key.
func (op *operation) expires(a *attempt, resp *http.Response) {
	left, ok := seconds(resp.Header, op.t.options.ExpiresHeader)
	if !ok || op.key == "" {
		return
	}
	op.end = a.start.Add(usable(left))
	if op.bound != nil {
		op.bound.expires(op.end)
	}
}

// finish returns what the last attempt brought. A response that was no answer
// is returned, too, except after the window: who sees it would ask again.
func (op *operation) finish(a *attempt, resp *http.Response, err, reason error) (*http.Response, error) {
	if resp == nil || errors.Is(reason, ErrWindowOver) {
		if resp != nil {
			drop(resp)
		}
		a.end()
		if reason == nil && op.Err() != nil {
			reason = op.Err()
		}
		return op.fail(reason, err)
	}
	op.reason = reason
	op.final = true
	if op.answer.ahead {
		a.end()
	} else {
		a.disarm()
	}
	if len(op.t.options.Observe) > 0 {
		op.observe(Event{Kind: EventAnswered, Took: time.Since(op.start), Err: reason}, resp)
	}
	return resp, nil
}

// fail returns the operation's error, and tells the observers.
func (op *operation) fail(reason, err error) (*http.Response, error) {
	e := op.failure(reason, err)
	op.observe(Event{Kind: EventFailed, Took: time.Since(op.start), Outcome: e.Outcome, Err: e}, nil)
	return nil, e
}

// failure says of the whole operation what the last attempt and those before
// it leave open.
func (op *operation) failure(reason, err error) *Error {
	e := &Error{
		Outcome: op.last.outcome, Key: op.key, Attempts: op.sends, Status: op.status,
		Type: op.last.name, RetryAfter: max(op.wait, 0), Window: -1,
		Reason: reason, Err: err, kind: op.last.kind,
	}
	if op.maybe && !op.last.sure {
		e.Outcome = Unknown
	}
	if !op.end.IsZero() {
		e.Window = max(time.Until(op.end), 0)
	}
	return e
}

// refuse returns the error of a request of which nothing was sent.
func (op *operation) refuse(err error) error {
	op.last.outcome = Refused
	var reason error
	var j *journalError
	switch {
	case errors.As(err, &j):
		op.last.outcome = NotExecuted
	case errors.Is(err, ErrWindowOver): // earlier requests under the key may have been executed
		op.last.outcome, reason, err = Unknown, err, nil
	}
	e := op.failure(reason, err)
	if op.t.err == nil {
		op.observe(Event{Kind: EventFailed, Outcome: e.Outcome, Err: e}, nil)
	}
	return e
}

// answered ends the operation for the journal, once its answer was handed over.
func (op *operation) answered() {
	if !op.journaled || !op.final || !op.settled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(op.Context), journalTimeout)
	defer cancel()
	if err := op.t.options.Journal.Done(ctx, op.key); err != nil {
		op.observe(Event{Kind: EventJournal, Err: err}, nil)
	}
}

// settled reports whether the answer leaves nothing to ask again for.
func (op *operation) settled() bool {
	if op.last.success {
		return true
	}
	outcome := op.failure(nil, nil).Outcome
	return outcome == Refused || outcome == Completed
}
