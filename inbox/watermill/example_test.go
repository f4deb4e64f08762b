package ibidwatermill_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	ibidwatermill "github.com/ibid-go/ibid/inbox/watermill"
	"github.com/ibid-go/ibid/memstore"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 10}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	check(err)

	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	check(err)
	consumer, err := inbox.New(engine, "billing", ibid.Retry, &inbox.Options{Emit: ibidwatermill.ByRouter})
	check(err)
	router.AddMiddleware(ibidwatermill.Middleware(consumer, nil))
	router.AddHandler("billing", "orders", bus, "receipts", bus, func(msg *message.Message) ([]*message.Message, error) {
		fmt.Printf("charge %s\n", msg.Payload)
		return []*message.Message{message.NewMessage("receipt of "+msg.UUID, msg.Payload)}, nil
	})
	receipts, err := bus.Subscribe(ctx, "receipts")
	check(err)
	go router.Run(ctx)
	<-router.Running()

	check(bus.Publish("orders", message.NewMessage("order-17", []byte("3000 TWD"))))
	check(bus.Publish("orders", message.NewMessage("order-17", []byte("3000 TWD")))) // by a producer that repeats itself
	for range 2 {
		r := <-receipts
		fmt.Println(r.UUID)
		r.Ack()
	}
	check(router.Close())
	// Output:
	// charge 3000 TWD
	// receipt of order-17
	// receipt of order-17
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
