package messages

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/inbox/inboxtest"
	ibidnats "github.com/ibid-go/ibid/inbox/nats"
)

const ackWait = time.Second

func TestNATS(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	var n atomic.Int64
	inboxtest.Run(t, inboxtest.Target{
		Parallel: true, AckTimeout: ackWait,
		Open: func(ctx context.Context) (inboxtest.Broker, error) {
			return openNATS(ctx, url, fmt.Sprintf("Q%d", n.Add(1)))
		},
	})
}

func startNATS(t testing.TB) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not answer")
	}
	return s.ClientURL()
}

type natsBroker struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	queue jetstream.Consumer
	name  string
	lose  atomic.Int64
}

func openNATS(ctx context.Context, url, name string) (*natsBroker, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	b := &natsBroker{nc: nc, name: name}
	if b.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	// A short window: what the server would drop by itself proves nothing.
	stream, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Duplicates: 100 * time.Millisecond, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return nil, err
	}
	b.queue, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "c", AckWait: ackWait})
	return b, err
}

// Publish goes without the header that the server deduplicates by: the suite
// publishes duplicates.
func (b *natsBroker) Publish(ctx context.Context, id, body string) error {
	msg := nats.NewMsg(b.name)
	msg.Data = []byte(body)
	msg.Header.Set("ce-id", id)
	msg.Header.Set("ce-source", "suite")
	_, err := b.js.PublishMsg(ctx, msg)
	return err
}

func (b *natsBroker) Consume(ctx context.Context, c *inbox.Consumer, work func(context.Context, string) error) error {
	handler, err := ibidnats.Handler(ctx, c, func(ctx context.Context, msg jetstream.Msg) error { return work(ctx, string(msg.Data())) }, nil)
	if err != nil {
		return err
	}
	running, err := b.queue.Consume(func(msg jetstream.Msg) { handler(lossy{msg, &b.lose}) })
	if err != nil {
		return err
	}
	<-ctx.Done()
	running.Drain()
	<-running.Closed()
	return nil
}

func (b *natsBroker) LoseAcks(n int) { b.lose.Add(int64(n)) }

func (b *natsBroker) Close() error {
	b.nc.Close()
	return nil
}

// lossy loses acknowledgements on the way.
type lossy struct {
	jetstream.Msg
	lose *atomic.Int64
}

func (l lossy) Ack() error {
	if l.lose.Add(-1) >= 0 {
		return nil
	}
	return l.Msg.Ack()
}
