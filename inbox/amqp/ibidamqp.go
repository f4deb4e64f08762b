// Package ibidamqp processes messages of RabbitMQ, and of other brokers that
// speak AMQP 0-9-1, once, with package inbox.
//
// Its whole policy: acknowledge what is done, reject what never will be, which
// sends it to the dead-letter exchange of its queue, and requeue everything else
// after its delay. The broker has no delay of its own, so a message that waits
// occupies a place of the prefetch count meanwhile.
package ibidamqp

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/ibid-go/ibid/inbox"
)

// Options of Consume. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// Identify says which message d is. Default: a CloudEvent by its source and
	// ID, any other by its MessageId and, as source, its AppId, or its routing
	// key where it has none.
	Identify func(d *amqp.Delivery) inbox.Message
	// Failed is called when the broker could not be told of a decision: it
	// delivers again once the channel is closed, which is harmless. Default:
	// nothing is called.
	Failed func(*amqp.Delivery, error)
}

// Consume processes deliveries until the channel is closed or ctx ends, each
// on a goroutine of its own, and returns when all are settled. How many run at
// once is the prefetch count: set it with Channel.Qos. deliveries come from
// Channel.Consume with autoAck off.
func Consume(ctx context.Context, deliveries <-chan amqp.Delivery, consumer *inbox.Consumer, work func(context.Context, *amqp.Delivery) error, opts *Options) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Identify == nil {
		o.Identify = Identify
	}
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case d, open := <-deliveries:
			if !open {
				return
			}
			running.Go(func() {
				decision := consumer.Process(ctx, o.Identify(&d), nil, func(ctx context.Context) error { return work(ctx, &d) })
				if err := settle(ctx, &d, decision); err != nil && o.Failed != nil {
					o.Failed(&d, err)
				}
			})
		}
	}
}

func settle(ctx context.Context, d *amqp.Delivery, decision inbox.Decision) error {
	switch decision.Verdict {
	case inbox.Ack:
		return d.Ack(false)
	case inbox.Reject:
		return d.Nack(false, false)
	}
	// A broker that gets no answer keeps the message for this channel for ever, so
	// it is asked again after a lost claim, too: the winner's result awaits it.
	t := time.NewTimer(decision.Delay)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return d.Nack(false, true)
}

// Identify is the default of Options.Identify.
func Identify(d *amqp.Delivery) inbox.Message {
	header := func(name string) string {
		if name == "Content-Type" {
			return d.ContentType
		}
		s, _ := d.Headers[name].(string)
		return s
	}
	if m, ok := inbox.CloudEvent(header, d.Body); ok {
		return m
	}
	m := inbox.Message{Source: d.AppId, ID: d.MessageId, Body: d.Body}
	if m.Source == "" {
		m.Source = d.RoutingKey
	}
	return m
}
