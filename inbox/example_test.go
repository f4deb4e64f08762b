package inbox_test

import (
	"context"
	"fmt"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/memstore"
)

func ExampleConsumer_Process() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	if err != nil {
		panic(err)
	}
	consumer, err := inbox.New(engine, "billing", ibid.Retry, nil)
	if err != nil {
		panic(err)
	}
	m := inbox.Message{Source: "orders", ID: "17", Body: []byte("3000 TWD")}
	for range 2 { // the broker delivers it twice
		d := consumer.Process(ctx, m, nil, func(ctx context.Context) error {
			fmt.Println("charge", len(ibid.DerivedKey(ctx, "charge")) > 0)
			return nil
		})
		fmt.Println(d.Verdict, d.Replayed)
	}
	m.Body = []byte("3 TWD")
	d := consumer.Process(ctx, m, nil, func(context.Context) error { return nil })
	fmt.Println(d.Verdict, d.Err)
	// Output:
	// charge true
	// ack false
	// ack true
	// reject ibid: key was used for another request
}
