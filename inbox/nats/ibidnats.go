// Package ibidnats processes messages of NATS JetStream once, with package
// inbox.
//
//	consume, err := jetstreamConsumer.Consume(handler)
//
// Its whole policy: acknowledge what is done, ask again later with a delay for
// what is not, terminate what never will be, say nothing after a lost claim, and
// tell the server while the work goes on. The consumer's AckTimeout is the AckWait
// of the JetStream consumer; leave MaxDeliver unset.
package ibidnats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
)

// Options of a handler. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// Identify says which message msg is. Default: a CloudEvent by its source
	// and ID, any other by its stream and its Nats-Msg-Id header.
	Identify func(msg jetstream.Msg) inbox.Message
	// Failed is called when the server could not be told of a decision: it
	// delivers again then, which is harmless. Default: nothing is called.
	Failed func(jetstream.Msg, error)
}

// Handler returns a handler for a JetStream consumer's Consume. It processes one
// message at a time: call Consume several times for more. ctx is that of the
// consumer's life; its end lets the work that runs finish.
//
// The server drops what is terminated: ErrInvalid reports a consumer without
// DeadLetter, or without AckTimeout.
func Handler(ctx context.Context, consumer *inbox.Consumer, work func(context.Context, jetstream.Msg) error, opts *Options) (jetstream.MessageHandler, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Identify == nil {
		o.Identify = Identify
	}
	if !consumer.KeepsDeadLetters() || consumer.AckTimeout() == 0 {
		return nil, fmt.Errorf("%w: ibidnats: the consumer needs DeadLetter, and AckTimeout as the AckWait of the JetStream consumer", ibid.ErrInvalid)
	}
	return func(msg jetstream.Msg) {
		d := consumer.Process(ctx, o.Identify(msg),
			func(context.Context) error { return msg.InProgress() },
			func(ctx context.Context) error { return work(ctx, msg) })
		if err := settle(msg, d); err != nil && o.Failed != nil {
			o.Failed(msg, err)
		}
	}, nil
}

func settle(msg jetstream.Msg, d inbox.Decision) error {
	switch d.Verdict {
	case inbox.Ack:
		return msg.Ack()
	case inbox.Retry:
		return msg.NakWithDelay(d.Delay)
	case inbox.Reject:
		return msg.TermWithReason(d.Err.Error())
	}
	return nil
}

// Identify is the default of Options.Identify.
func Identify(msg jetstream.Msg) inbox.Message {
	if m, ok := inbox.CloudEvent(msg.Headers().Get, msg.Data()); ok {
		return m
	}
	m := inbox.Message{ID: msg.Headers().Get(jetstream.MsgIDHeader), Body: msg.Data()}
	if meta, err := msg.Metadata(); err == nil {
		m.Source = meta.Stream
	}
	return m
}
