package ibidamqp_test

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	ibidamqp "github.com/ibid-go/ibid/inbox/amqp"
	"github.com/ibid-go/ibid/memstore"
)

// deliveries stands for Channel.Qos and Channel.Consume of a connection.
func deliveries(bodies ...string) <-chan amqp.Delivery {
	out := make(chan amqp.Delivery)
	go func() {
		defer close(out)
		for _, b := range bodies {
			settled := make(chan struct{})
			out <- amqp.Delivery{Acknowledger: printer{b, settled}, AppId: "shop", MessageId: b, Body: []byte(b)}
			<-settled // a prefetch count of 1
		}
	}()
	return out
}

func Example() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	check(err)
	consumer, err := inbox.New(engine, "billing", ibid.Retry, nil)
	check(err)
	ibidamqp.Consume(ctx, deliveries("order-17", "order-17", "order-of-nobody"), consumer, func(_ context.Context, d *amqp.Delivery) error {
		if string(d.Body) == "order-of-nobody" {
			return ibid.Final(errors.New("no such customer"))
		}
		fmt.Println("charge", string(d.Body))
		return nil
	}, nil)
	// Output:
	// charge order-17
	// ack order-17
	// ack order-17
	// to the dead letters: order-of-nobody
}

type printer struct {
	body    string
	settled chan struct{}
}

func (p printer) Ack(uint64, bool) error {
	fmt.Println("ack", p.body)
	close(p.settled)
	return nil
}

func (p printer) Nack(_ uint64, _, requeue bool) error {
	if !requeue {
		fmt.Println("to the dead letters:", p.body)
	}
	close(p.settled)
	return nil
}

func (p printer) Reject(tag uint64, requeue bool) error { return p.Nack(tag, false, requeue) }

func check(err error) {
	if err != nil {
		panic(err)
	}
}
