package ibidsqs_test

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	ibidsqs "github.com/ibid-go/ibid/inbox/sqs"
	"github.com/ibid-go/ibid/memstore"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	queue := &fake{left: []string{"order-17", "order-17", "order-18"}, empty: cancel} // an *sqs.Client elsewhere

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
	err = ibidsqs.Consume(ctx, queue, "orders", consumer, func(_ context.Context, m *types.Message) error {
		fmt.Println("charge", *m.Body)
		return nil
	}, nil)
	fmt.Println(err)
	// Output:
	// charge order-17
	// deleted
	// deleted
	// charge order-18
	// deleted
	// context canceled
}

// fake delivers one message at a time.
type fake struct {
	left  []string
	empty func()
}

func (f *fake) ReceiveMessage(ctx context.Context, _ *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	if len(f.left) == 0 {
		f.empty()
		return nil, ctx.Err()
	}
	id := f.left[0]
	f.left = f.left[1:]
	return &sqs.ReceiveMessageOutput{Messages: []types.Message{{
		Body: aws.String(id), ReceiptHandle: aws.String(id),
		MessageAttributes: map[string]types.MessageAttributeValue{"message-id": {StringValue: aws.String(id)}},
	}}}, nil
}

func (f *fake) DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	fmt.Println("deleted")
	return nil, nil
}

func (f *fake) ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	return nil, nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
