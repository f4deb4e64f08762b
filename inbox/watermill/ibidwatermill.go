// Package ibidwatermill is a middleware for the router of Watermill that
// processes messages once, with package inbox.
//
// Its whole policy: a message that is done is acknowledged, and what its handler
// returned is published by the router, again after every redelivery and under the
// same UUIDs; one that was rejected is acknowledged if its dead letter was kept, and
// otherwise fails with a RejectedError, for the poison queue; everything else
// fails after its delay, so that the router asks for it again.
package ibidwatermill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ibid-go/ibid/inbox"
)

// Options of a middleware. A nil *Options, and the zero value of every field, is
// the default.
type Options struct {
	// Identify says which message msg is. Default: a CloudEvent by its source and
	// ID, any other by its topic and its UUID.
	Identify func(msg *message.Message) inbox.Message
	// MaxPause bounds how long a delay is slept in process: brokers that are told
	// of a failure differ in when they deliver again, from at once to never, and
	// one that waits too long for an answer delivers again, too. Default 5 s;
	// negative is no pause.
	MaxPause time.Duration
}

// ByRouter is the inbox.Options.Emit of consumers whose handlers return what
// they produce: the router publishes it after the middleware.
func ByRouter(context.Context, inbox.Message, []inbox.Produced) error { return nil }

// RejectedError reports a message that no delivery will ever do. Keep it in a
// poison queue: middleware.PoisonQueueWithFilter(publisher, topic,
// ibidwatermill.IsRejected), outside of this middleware.
type RejectedError struct{ Err error }

// Error implements error.
func (e *RejectedError) Error() string { return "rejected: " + e.Err.Error() }

// Unwrap returns Err.
func (e *RejectedError) Unwrap() error { return e.Err }

// IsRejected reports whether err is a RejectedError.
func IsRejected(err error) bool {
	_, ok := errors.AsType[*RejectedError](err)
	return ok
}

// Middleware returns a middleware for message.Router.AddMiddleware, or for one
// handler. Retry middlewares belong inside of it, or nowhere.
func Middleware(consumer *inbox.Consumer, opts *Options) message.HandlerMiddleware {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Identify == nil {
		o.Identify = Identify
	}
	if o.MaxPause == 0 {
		o.MaxPause = 5 * time.Second
	}
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			d := consumer.Process(msg.Context(), o.Identify(msg), nil, func(ctx context.Context) error {
				return run(ctx, msg, next)
			})
			switch {
			case d.Verdict == inbox.Ack:
				return messages(d.Produced), nil
			case d.Verdict == inbox.Reject && consumer.KeepsDeadLetters():
				return nil, nil
			case d.Verdict == inbox.Reject:
				return nil, &RejectedError{d.Err}
			}
			pause(msg.Context(), min(d.Delay, o.MaxPause))
			return nil, d.Err
		}
	}
}

// run runs the handler on the work's context, and records what it returns.
func run(ctx context.Context, msg *message.Message, next message.HandlerFunc) error {
	own := msg.Copy() // two deliveries in one process may be one *Message
	own.SetContext(ctx)
	produced, err := next(own)
	if err != nil || len(produced) == 0 {
		return err
	}
	out := make([]inbox.Produced, len(produced))
	for i, m := range produced {
		out[i] = inbox.Produced{ID: m.UUID, Header: m.Metadata, Body: m.Payload}
	}
	if err := inbox.Produce(ctx, out...); err != nil {
		return fmt.Errorf("set inbox.Options.Emit to ibidwatermill.ByRouter: %w", err)
	}
	return nil
}

func messages(produced []inbox.Produced) []*message.Message {
	var out []*message.Message
	for _, p := range produced {
		m := message.NewMessage(p.ID, p.Body)
		for name, value := range p.Header {
			m.Metadata.Set(name, value)
		}
		out = append(out, m)
	}
	return out
}

// Identify is the default of Options.Identify.
func Identify(msg *message.Message) inbox.Message {
	if m, ok := inbox.CloudEvent(msg.Metadata.Get, msg.Payload); ok {
		return m
	}
	return inbox.Message{Source: message.SubscribeTopicFromCtx(msg.Context()), ID: msg.UUID, Body: msg.Payload}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
