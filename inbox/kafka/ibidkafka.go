// Package ibidkafka processes records of Kafka once, with package inbox and
// franz-go.
//
// Its whole policy: the records of a partition are processed in order, and
// committed when they are done or rejected. Kafka has no way to ask for one record
// again, so what must be done again is, in place, after its delay. A record whose
// partition has moved meanwhile is processed by two consumers, and one of them
// gets the other's result.
package ibidkafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
)

// Options of Consume. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// Identify says which message r is. Default: a CloudEvent by its source and
	// ID, any other by its topic and its header "message-id".
	Identify func(r *kgo.Record) inbox.Message
	// Poll bounds how many records are fetched at a time. Default 100.
	Poll int
	// Failed is called with errors of fetching and committing, which are tried
	// again. A commit that fails makes Kafka deliver again, which is harmless.
	// Default: nothing is called.
	Failed func(error)
}

// Consume processes what client fetches until ctx ends, and returns ctx's error.
// client is a member of a group with kgo.DisableAutoCommit; records of different
// partitions are processed at the same time. Work that runs when ctx ends
// finishes first.
//
// Kafka keeps no rejected record: ErrInvalid reports a consumer without
// DeadLetter.
func Consume(ctx context.Context, client *kgo.Client, consumer *inbox.Consumer, work func(context.Context, *kgo.Record) error, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Identify == nil {
		o.Identify = Identify
	}
	if o.Poll <= 0 {
		o.Poll = 100
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if !consumer.KeepsDeadLetters() {
		return fmt.Errorf("%w: ibidkafka: the consumer needs DeadLetter: Kafka keeps no rejected record", ibid.ErrInvalid)
	}
	for {
		fetches := client.PollRecords(ctx, o.Poll)
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return errors.Join(ctx.Err())
		}
		fetches.EachError(func(_ string, _ int32, err error) { o.Failed(err) })
		var running sync.WaitGroup
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			running.Go(func() {
				for _, r := range p.Records {
					if !process(ctx, consumer, r, work, &o) {
						return
					}
					// Also once ctx has ended: what is done need not come again.
					if err := commit(ctx, client, r); err != nil {
						o.Failed(err)
					}
				}
			})
		})
		running.Wait()
	}
}

// process returns true when r is done or rejected, and false when ctx ended first.
func process(ctx context.Context, consumer *inbox.Consumer, r *kgo.Record, work func(context.Context, *kgo.Record) error, o *Options) bool {
	m := o.Identify(r)
	for {
		d := consumer.Process(ctx, m, nil, func(ctx context.Context) error { return work(ctx, r) })
		if d.Verdict == inbox.Ack || d.Verdict == inbox.Reject {
			return true
		}
		// Another delivery holds the claim after Leave: its answer will be this one's.
		t := time.NewTimer(max(d.Delay, 10*time.Millisecond))
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-t.C:
		}
	}
}

func commit(ctx context.Context, client *kgo.Client, r *kgo.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return client.CommitRecords(ctx, r)
}

// Identify is the default of Options.Identify.
func Identify(r *kgo.Record) inbox.Message {
	header := func(name string) string {
		for _, h := range r.Headers {
			if h.Key == name {
				return string(h.Value)
			}
		}
		return ""
	}
	if m, ok := inbox.CloudEvent(header, r.Value); ok {
		return m
	}
	return inbox.Message{Source: r.Topic, ID: header("message-id"), Body: r.Value}
}
