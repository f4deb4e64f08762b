package ibidnats_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	ibidnats "github.com/ibid-go/ibid/inbox/nats"
	"github.com/ibid-go/ibid/memstore"
)

// The server would drop a second message with this ID only within its own
// window; the inbox does for seven days.
func Example() {
	ctx := context.Background()
	js, stop := startServer()
	defer stop()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}, Duplicates: 100 * time.Millisecond})
	check(err)
	queue, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "billing", AckWait: 30 * time.Second})
	check(err)

	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	check(err)
	consumer, err := inbox.New(engine, "billing", ibid.Retry, &inbox.Options{
		AckTimeout: 30 * time.Second,
		DeadLetter: func(_ context.Context, m inbox.Message, err error) error {
			fmt.Println("rejected:", m.ID, err)
			return nil
		},
	})
	check(err)
	done := make(chan struct{}, 2)
	handler, err := ibidnats.Handler(ctx, consumer, func(ctx context.Context, msg jetstream.Msg) error {
		fmt.Printf("charge %s\n", msg.Data())
		done <- struct{}{}
		return nil
	}, nil)
	check(err)
	running, err := queue.Consume(handler)
	check(err)
	defer running.Stop()

	for range 3 {
		_, err = js.Publish(ctx, "orders", []byte("3000 TWD"), jetstream.WithMsgID("order-17"))
		check(err)
		time.Sleep(200 * time.Millisecond) // past the server's window
	}
	_, err = js.Publish(ctx, "orders", []byte("50 TWD"), jetstream.WithMsgID("order-18"))
	check(err)
	<-done
	<-done
	// Output:
	// charge 3000 TWD
	// charge 50 TWD
}

func startServer() (js jetstream.JetStream, stop func()) {
	dir, err := os.MkdirTemp("", "ibid-nats-")
	check(err)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	check(err)
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("no server")
	}
	nc, err := nats.Connect(s.ClientURL())
	check(err)
	js, err = jetstream.New(nc)
	check(err)
	return js, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
