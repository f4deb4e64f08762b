package messages

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/inbox/inboxtest"
	ibidkafka "github.com/ibid-go/ibid/inbox/kafka"
)

func TestKafka(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, inboxtest.Target{
		Parallel: true,
		Open:     func(ctx context.Context) (inboxtest.Broker, error) { return openKafka(ctx) },
	})
}

type kafkaBroker struct {
	cluster  *kfake.Cluster
	producer *kgo.Client
	lose     atomic.Int64
	n        atomic.Int64
}

func openKafka(context.Context) (*kafkaBroker, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "q"))
	if err != nil {
		return nil, err
	}
	b := &kafkaBroker{cluster: cluster}
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if b.lose.Add(-1) < 0 {
			return nil, nil, false
		}
		in := req.(*kmsg.OffsetCommitRequest)
		out := in.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range in.Topics {
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				answer := kmsg.NewOffsetCommitResponseTopicPartition()
				answer.Partition, answer.ErrorCode = p.Partition, kerr.GroupAuthorizationFailed.Code // which the client does not try again
				t.Partitions = append(t.Partitions, answer)
			}
			out.Topics = append(out.Topics, t)
		}
		return out, nil, true
	})
	b.producer, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("q"))
	return b, err
}

func (b *kafkaBroker) Publish(ctx context.Context, id, body string) error {
	return b.producer.ProduceSync(ctx, &kgo.Record{Value: []byte(body), Headers: []kgo.RecordHeader{{Key: "message-id", Value: []byte(id)}}}).FirstErr()
}

// Consume joins the group, and leaves it as soon as ctx ends: the partition then
// moves while work still runs.
func (b *kafkaBroker) Consume(ctx context.Context, c *inbox.Consumer, work func(context.Context, string) error) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ConsumeTopics("q"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID(fmt.Sprint("c", b.n.Add(1))),
		kgo.HeartbeatInterval(50*time.Millisecond), kgo.SessionTimeout(6*time.Second), kgo.FetchMaxWait(50*time.Millisecond),
	)
	if err != nil {
		return err
	}
	var left sync.WaitGroup
	defer left.Wait()
	left.Go(func() { <-ctx.Done(); client.Close() })
	return ibidkafka.Consume(ctx, client, c, func(ctx context.Context, r *kgo.Record) error { return work(ctx, string(r.Value)) }, nil)
}

func (b *kafkaBroker) LoseAcks(n int) { b.lose.Add(int64(n)) }

func (b *kafkaBroker) Close() error {
	b.producer.Close()
	b.cluster.Close()
	return nil
}
