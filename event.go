package ibid

import (
	"context"
	"log/slog"
	"time"
)

// Event is something that happened to an operation, for logs and metrics. It
// holds nothing of the request and nothing of the result.
type Event struct {
	Kind EventKind
	// Key and Scope are digests; zero where the event is not about one key.
	Key, Scope Digest
	// Attempt and Fence are those of the claim, where there is one.
	Attempt int
	Fence   int64
	// Took is how long what happened took, where it took time: the run of the
	// work, the wait, the store's call.
	Took time.Duration
	// Size is the number of bytes of the result.
	Size int
	// Verb is the store's verb in an EventStoreError.
	Verb string
	// Guard is the constraint named in an EventDegraded.
	Guard string
	// Err is what went wrong, where something did.
	Err error
}

// EventKind says what happened.
type EventKind uint8

// The kinds. Every call of Do ends in exactly one of those marked with an
// asterisk.
const (
	EventClaimed      EventKind = iota // the key was claimed; the work runs
	EventTakenOver                     // the claim of a vanished attempt was taken over
	EventCompleted                     // * the result was recorded
	EventReplayed                      // * a recorded result was returned
	EventReleased                      // * the work reported a failure; the key is free
	EventGivenUp                       // * the work vanished, or failed after its effect had started
	EventInProgress                    // * another attempt holds the key
	EventMismatch                      // * the key was used for another request
	EventUnknown                       // * the outcome of an earlier attempt is unknown
	EventExpired                       // * the key is remembered, its result is gone
	EventNotKept                       // * the work completed earlier, its result was not kept
	EventAttempts                      // * the key has had too many attempts
	EventNotRecorded                   // * the work ran, its result is not recorded yet
	EventClaimLost                     // * another attempt took over while the work ran, or the key was resolved; its answer is returned
	EventUnavailable                   // * the store could not be asked; nothing ran
	EventDamaged                       // * the record could not be understood; nothing ran
	EventDegraded                      // * the store could not be asked; the work ran on its guard
	EventCancelled                     // * the caller went away while it waited, or before the work began
	EventRefused                       // * the call was invalid, or the engine is draining
	EventWaited                        // a call has waited for another attempt
	EventStoreError                    // a call of the store failed
	EventRecordedLate                  // a result was recorded after its caller had been told ErrNotRecorded
	EventDropped                       // what was owed to the store could not be paid, and the engine stopped trying
	EventSwept                         // stale records were deleted; Size is how many
	eventKinds
)

var eventNames = [eventKinds]string{
	"claimed", "taken over", "completed", "replayed", "released", "given up", "in progress", "mismatch",
	"unknown", "expired", "not kept", "too many attempts", "not recorded", "claim lost", "unavailable",
	"damaged", "degraded", "cancelled", "refused", "waited", "store error", "recorded late", "dropped", "swept",
}

// String returns the kind in words.
func (k EventKind) String() string {
	if k < eventKinds {
		return eventNames[k]
	}
	return "unknown event"
}

// level is how loud the kind is in a log.
func (k EventKind) level() slog.Level {
	switch k {
	case EventGivenUp, EventUnknown, EventNotRecorded, EventClaimLost, EventUnavailable, EventDegraded,
		EventStoreError, EventTakenOver, EventMismatch, EventAttempts:
		return slog.LevelWarn
	case EventDamaged, EventDropped:
		return slog.LevelError
	}
	return slog.LevelDebug
}

// LogTo returns an observer that writes events to log: at Debug what is
// ordinary, at Warn what someone should know, at Error what someone must
// repair. Keys appear as the first eight bytes of their digest.
func LogTo(log *slog.Logger) func(context.Context, Event) {
	return func(ctx context.Context, e Event) {
		level := e.Kind.level()
		if !log.Enabled(ctx, level) {
			return
		}
		attrs := make([]slog.Attr, 0, 8)
		if e.Key != (Digest{}) {
			attrs = append(attrs, slog.String("key", e.Key.String()[:16]))
		}
		if e.Attempt > 0 {
			attrs = append(attrs, slog.Int("attempt", e.Attempt), slog.Int64("fence", e.Fence))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
		}
		if e.Size > 0 {
			attrs = append(attrs, slog.Int("size", e.Size))
		}
		if e.Verb != "" {
			attrs = append(attrs, slog.String("verb", e.Verb))
		}
		if e.Guard != "" {
			attrs = append(attrs, slog.String("guard", e.Guard))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		log.LogAttrs(ctx, level, "ibid: "+e.Kind.String(), attrs...)
	}
}
