package messages

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/inbox/inboxtest"
	ibidwatermill "github.com/ibid-go/ibid/inbox/watermill"
)

func TestWatermill(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, inboxtest.Target{
		Parallel: true,
		Open: func(context.Context) (inboxtest.Broker, error) {
			return &watermillBroker{queue: make(chan *message.Message, 1000), bus: gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})}, nil
		},
	})
}

// watermillBroker runs Watermill's own router on its channel broker, which keeps
// nothing for a subscriber that has gone: what is not acknowledged is put back
// on a queue in front of it.
type watermillBroker struct {
	bus   *gochannel.GoChannel
	queue chan *message.Message
	lose  atomic.Int64
}

func (b *watermillBroker) Publish(_ context.Context, id, body string) error {
	b.queue <- message.NewMessage(id, []byte(body))
	return nil
}

func (b *watermillBroker) Consume(ctx context.Context, c *inbox.Consumer, work func(context.Context, string) error) error {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	router.AddMiddleware(ibidwatermill.Middleware(c, nil))
	router.AddConsumerHandler("h", "q", (*subscriber)(b), func(msg *message.Message) error { return work(msg.Context(), string(msg.Payload)) })
	return router.Run(ctx)
}

func (b *watermillBroker) LoseAcks(n int) { b.lose.Add(int64(n)) }

func (b *watermillBroker) Close() error { return b.bus.Close() }

type subscriber watermillBroker

func (s *subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case stored := <-s.queue:
				running.Go(func() { s.deliver(ctx, out, stored) })
			}
		}
	})
	go func() { running.Wait(); close(out) }()
	return out, nil
}

// deliver delivers until the message is acknowledged, or ctx ends.
func (s *subscriber) deliver(ctx context.Context, out chan<- *message.Message, stored *message.Message) {
	for {
		msg := stored.Copy()
		msg.SetContext(ctx)
		select {
		case <-ctx.Done():
			s.queue <- stored
			return
		case out <- msg:
		}
		select {
		case <-msg.Acked():
			if s.lose.Add(-1) < 0 {
				return
			}
		case <-msg.Nacked():
		}
	}
}

func (s *subscriber) Close() error { return nil }
