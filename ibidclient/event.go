package ibidclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"time"
)

// Event is something that happened to a request, for logs and metrics. It holds
// nothing of the body, and of the URL nothing but the host.
type Event struct {
	Kind EventKind
	// Key is the idempotency key; "" for a request without one. It may be
	// personal: LogTo writes a digest of it.
	Key          string
	Method, Host string
	// Attempt counts the attempts so far, from 1 on; 0 before the first one.
	Attempt int
	// Sends is how often the request was seen at the wire so far.
	Sends int
	// Status is that of the response; 0 where there is none.
	Status int
	// Replayed is set when the response is marked as a replay.
	Replayed bool
	// Type is the problem type, or the error code, of the response.
	Type string
	// Took is how long the attempt took, or all of them together at the end.
	Took time.Duration
	// Wait is how long the next attempt is waited for, in an EventRetry.
	Wait time.Duration
	// Outcome is set in an EventFailed.
	Outcome Outcome
	// Err is what went wrong, where something did.
	Err error
}

// EventKind says what happened.
type EventKind uint8

// The kinds. Every request that a Transport does not pass on untouched ends in exactly one of those marked
// with an asterisk.
const (
	EventAttempt  EventKind = iota // an attempt ended, with a response or an error
	EventResent                    // http.Transport sent the request again by itself
	EventRetry                     // another attempt will be made after Wait
	EventSentOnce                  // the body can be sent only once: there will be no retry
	EventAnswered                  // * a response is returned
	EventFailed                    // * an error is returned
	EventJournal                   // the journal could not forget an operation that was answered
	eventKinds
)

// String returns the kind in words.
func (k EventKind) String() string {
	names := [eventKinds]string{"attempt", "resent", "retry", "sent once", "answered", "failed", "journal"}
	if k < eventKinds {
		return names[k]
	}
	return "unknown event"
}

// observe tells the observers of e, with what is known of the operation.
func (op *operation) observe(e Event, resp *http.Response) {
	if len(op.t.options.Observe) == 0 {
		return
	}
	e.Key, e.Method, e.Host = op.key, method(op.req), op.req.URL.Host
	e.Attempt, e.Sends = op.attempts, op.sends
	if resp != nil {
		e.Status, e.Type, e.Replayed = resp.StatusCode, op.last.name, Replayed(resp)
	}
	for _, f := range op.t.options.Observe {
		f(op.Context, e)
	}
}

// LogTo returns an observer that writes events to log: at Debug what is
// ordinary, at Info that a request is made again, at Warn what someone should
// know. A key appears as the first eight bytes of its SHA-256 digest.
func LogTo(log *slog.Logger) func(context.Context, Event) {
	return func(ctx context.Context, e Event) {
		level := e.level()
		if !log.Enabled(ctx, level) {
			return
		}
		attrs := make([]slog.Attr, 0, 12)
		attrs = append(attrs, slog.String("method", e.Method), slog.String("host", e.Host))
		if e.Key != "" {
			d := sha256.Sum256([]byte(e.Key))
			attrs = append(attrs, slog.String("key", hex.EncodeToString(d[:8])))
		}
		if e.Attempt > 0 {
			attrs = append(attrs, slog.Int("attempt", e.Attempt), slog.Int("sends", e.Sends))
		}
		if e.Status != 0 {
			attrs = append(attrs, slog.Int("status", e.Status), slog.Bool("replayed", e.Replayed))
		}
		if e.Type != "" {
			attrs = append(attrs, slog.String("type", e.Type))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
		}
		if e.Kind == EventRetry {
			attrs = append(attrs, slog.Duration("wait", e.Wait))
		}
		if e.Kind == EventFailed {
			attrs = append(attrs, slog.String("outcome", e.Outcome.String()))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		log.LogAttrs(ctx, level, "ibidclient: "+e.Kind.String(), attrs...)
	}
}

// level is how loud the event is in a log.
func (e Event) level() slog.Level {
	switch e.Kind {
	case EventFailed, EventSentOnce, EventResent, EventJournal:
		return slog.LevelWarn
	case EventRetry:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
