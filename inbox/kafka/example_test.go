package ibidkafka_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	ibidkafka "github.com/ibid-go/ibid/inbox/kafka"
	"github.com/ibid-go/ibid/memstore"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	check(err)
	defer cluster.Close()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("orders"),
		kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("billing"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	defer client.Close()
	for _, order := range []string{"17", "17", "18"} { // a producer that repeats itself
		check(client.ProduceSync(ctx, &kgo.Record{
			Value: []byte("order " + order), Headers: []kgo.RecordHeader{{Key: "message-id", Value: []byte(order)}},
		}).FirstErr())
	}

	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	check(err)
	consumer, err := inbox.New(engine, "billing", ibid.Retry, &inbox.Options{
		DeadLetter: func(_ context.Context, m inbox.Message, err error) error {
			fmt.Println("rejected:", m.ID, err)
			return nil
		},
	})
	check(err)
	err = ibidkafka.Consume(ctx, client, consumer, func(_ context.Context, r *kgo.Record) error {
		fmt.Printf("charge %s\n", r.Value)
		if string(r.Value) == "order 18" {
			cancel()
		}
		return nil
	}, nil)
	fmt.Println(err)
	// Output:
	// charge order 17
	// charge order 18
	// context canceled
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
