package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// Process runs work for m, unless an earlier delivery did, and says what to
// tell the broker. It returns after the result was recorded and what was
// produced was emitted.
//
//   - Done, now or earlier: Ack. A later delivery is acknowledged without
//     running.
//   - The work failed: Retry, later each time; Reject after Policy.MaxAttempts,
//     or at once when it said ibid.Final, also for every later delivery.
//   - Another delivery is being processed: Retry, after waiting for Policy.Wait.
//     It counts as no attempt. Never Ack.
//   - The ID was used with another body, or the outcome is unknown: Reject.
//   - The result could not be recorded, or the store not be asked: Retry. What
//     was done is not undone.
//   - The claim was lost to another attempt: Leave.
//   - The work panicked: its claim is given up, the takeover policy decides
//     what follows, and the panic goes on.
//
// keepAlive tells the broker that the message is still being processed; it is
// called at a third of AckTimeout for as long as that is true, and neither
// when the claim is lost nor when MaxRun is over. Nil where the broker
// waits for ever. Its error changes nothing: whether the work is done is not the
// broker's to say.
//
// An acknowledgement that fails is not a reason to undo anything: the next
// delivery is answered Ack.
func (c *Consumer) Process(ctx context.Context, m Message, keepAlive func(context.Context) error, work func(context.Context) error) Decision {
	call, err := c.call(m)
	if err != nil {
		return c.reject(ctx, m, err)
	}
	if c.opts.Probe != nil {
		call.Probe = func(ctx context.Context) (ibid.Found, []byte, error) { return c.probe(ctx, m) }
	}
	beat := startHeartbeat(ctx, keepAlive, c.opts.AckTimeout/3)
	defer beat.stop()
	ran := false
	data, out, err := c.engine.Do(ctx, call, func(ctx context.Context) ([]byte, error) {
		ran = true
		if beat != nil {
			// A cancelled context means that the claim is lost or MaxRun over: then
			// the broker may give the message to another.
			defer context.AfterFunc(ctx, beat.stop)()
		}
		ctx, collected := collect(ctx, c.opts.Emit != nil)
		if err := work(ctx); err != nil {
			return nil, &workError{err}
		}
		return collected.encode()
	})
	if ran && out.Replayed {
		// Another attempt took over and has its result recorded. Its delivery is
		// the one to acknowledge.
		return Decision{Verdict: Leave, Err: ibid.ErrClaimLost, Replayed: true, Attempt: out.Attempt}
	}
	d := c.decide(ctx, m, out, err)
	if d.Verdict == Ack && err == nil {
		c.emit(ctx, m, data, &d)
	}
	return d
}

// workError tells the work's own failure from an answer of the engine: work may
// itself use ibid, and return what that said.
type workError struct{ error }

// Unwrap returns the error of the work.
func (e *workError) Unwrap() error { return e.error }

func (c *Consumer) decide(ctx context.Context, m Message, out ibid.Outcome, err error) Decision {
	d := Decision{Verdict: Retry, Delay: c.policy.RetryAfter, Err: err, Replayed: out.Replayed, Attempt: out.Attempt}
	if own, ok := err.(*workError); ok { //nolint:errorlint // released: Do returns it as it is
		d.Err, d.Delay = own.error, c.backoff(out.Attempt)
		if n := c.policy.MaxAttempts; n > 0 && out.Attempt >= n {
			return c.rejected(ctx, m, d, fmt.Errorf("%w: %w", ibid.ErrAttempts, own.error))
		}
		return d
	}
	var final *ibid.FinalError
	var unknown *ibid.UnknownError
	var busy *ibid.InProgressError
	switch {
	case err == nil, errors.Is(err, ibid.ErrExpired):
		d.Verdict, d.Delay, d.Err = Ack, 0, nil
		d.Replayed = d.Replayed || err != nil
		return d
	case errors.As(err, &final):
		return c.rejected(ctx, m, d, err)
	case errors.As(err, &busy):
		d.Delay = busy.RetryAfter
		return d
	case errors.As(err, &unknown) && unknown.Cause != nil && c.policy.Takeover != ibid.Refuse:
		d.Delay = c.backoff(out.Attempt) // the next delivery takes over
		return d
	case errors.Is(err, ibid.ErrNotRecorded):
		return d
	case errors.Is(err, ibid.ErrMismatch), errors.Is(err, ibid.ErrUnknown), errors.Is(err, ibid.ErrAttempts),
		errors.Is(err, ibid.ErrNotKept), errors.Is(err, ibid.ErrDamaged), errors.Is(err, ibid.ErrInvalid):
		return c.rejected(ctx, m, d, err)
	case errors.Is(err, ibid.ErrClaimLost):
		d.Verdict, d.Delay = Leave, 0
		return d
	case ctx.Err() != nil:
		d.Delay = 0 // this consumer stops: another may have it at once
	}
	return d
}

// backoff returns the delay after the attempt of that number.
func (c *Consumer) backoff(attempt int) time.Duration {
	d := max(c.opts.RetryMin, 0)
	for ; attempt > 1 && d < c.opts.RetryMax; attempt-- {
		d *= 2
	}
	return max(min(d, c.opts.RetryMax), 0)
}

func (c *Consumer) reject(ctx context.Context, m Message, err error) Decision {
	return c.rejected(ctx, m, Decision{Delay: c.policy.RetryAfter}, err)
}

func (c *Consumer) rejected(ctx context.Context, m Message, d Decision, err error) Decision {
	d.Err = err
	if c.opts.DeadLetter != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		if failed := c.opts.DeadLetter(ctx, m, err); failed != nil {
			d.Verdict, d.Err = Retry, fmt.Errorf("dead letter: %w (of %w)", failed, err)
			return d
		}
	}
	d.Verdict, d.Delay = Reject, 0
	return d
}

func (c *Consumer) probe(ctx context.Context, m Message) (ibid.Found, []byte, error) {
	ctx, collected := collect(ctx, c.opts.Emit != nil)
	found, err := c.opts.Probe(ctx, m)
	if err != nil || found != ibid.FoundDone {
		return found, nil, err
	}
	data, err := collected.encode()
	return found, data, err
}
