// Package ibidsqs processes messages of Amazon SQS once, with package inbox.
//
// Its whole policy: delete what is done, and what was rejected once its dead
// letter is kept; let the rest become visible again after its delay; and push
// the visibility timeout out while the work goes on. SQS drops a repeated message
// within five minutes, and only on FIFO queues.
package ibidsqs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
)

// Client is what Consume needs of an *sqs.Client.
type Client interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// Options of Consume. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// Identify says which message m is. Default: a CloudEvent by its source and
	// ID; any other by its queue and its attribute "message-id", or its
	// deduplication ID, or the ID that SQS gave it, which is another one when the
	// producer sends it again.
	Identify func(m *types.Message) inbox.Message
	// Failed is called with errors of the service, which are tried again, by a
	// later delivery where one could not be settled. Default: nothing is called.
	Failed func(error)
}

// Consume receives up to ten messages at a time from queue, a URL, and
// processes them at once, until ctx ends; it returns ctx's error. The consumer's
// AckTimeout is the visibility timeout, in whole seconds.
//
// ErrInvalid reports a consumer without AckTimeout, or without DeadLetter.
func Consume(ctx context.Context, client Client, queue string, consumer *inbox.Consumer, work func(context.Context, *types.Message) error, opts *Options) error {
	c := consume{client: client, queue: queue, consumer: consumer, work: work}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Identify == nil {
		c.opts.Identify = c.identify
	}
	if c.opts.Failed == nil {
		c.opts.Failed = func(error) {}
	}
	if consumer.AckTimeout() < time.Second || !consumer.KeepsDeadLetters() {
		return fmt.Errorf("%w: ibidsqs: the consumer needs DeadLetter, and AckTimeout of at least 1 s as the visibility timeout", ibid.ErrInvalid)
	}
	for ctx.Err() == nil {
		got, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 20,
			VisibilityTimeout:           seconds(consumer.AckTimeout()),
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			if ctx.Err() == nil {
				c.opts.Failed(err)
				pause(ctx, time.Second)
			}
			continue
		}
		var running sync.WaitGroup
		for i := range got.Messages {
			running.Go(func() { c.process(ctx, &got.Messages[i]) })
		}
		running.Wait()
	}
	return ctx.Err()
}

type consume struct {
	client   Client
	queue    string
	consumer *inbox.Consumer
	work     func(context.Context, *types.Message) error
	opts     Options
}

func (c *consume) process(ctx context.Context, m *types.Message) {
	d := c.consumer.Process(ctx, c.opts.Identify(m),
		func(ctx context.Context) error { return c.visible(ctx, m, c.consumer.AckTimeout()) },
		func(ctx context.Context) error { return c.work(ctx, m) })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var err error
	switch d.Verdict {
	case inbox.Ack, inbox.Reject: // rejected: its dead letter is kept
		_, err = c.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &c.queue, ReceiptHandle: m.ReceiptHandle})
	case inbox.Retry:
		err = c.visible(ctx, m, d.Delay)
	}
	if err != nil {
		c.opts.Failed(err)
	}
}

func (c *consume) visible(ctx context.Context, m *types.Message, in time.Duration) error {
	_, err := c.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &c.queue, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds(in),
	})
	return err
}

func (c *consume) identify(m *types.Message) inbox.Message {
	attribute := func(name string) string { return aws.ToString(m.MessageAttributes[name].StringValue) }
	body := []byte(aws.ToString(m.Body))
	if m, ok := inbox.CloudEvent(attribute, body); ok {
		return m
	}
	for _, id := range []string{
		attribute("message-id"),
		m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)],
		aws.ToString(m.MessageId),
	} {
		if id != "" {
			return inbox.Message{Source: c.queue, ID: id, Body: body}
		}
	}
	return inbox.Message{Source: c.queue, Body: body}
}

// seconds rounds up: a message is never visible before its time.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
