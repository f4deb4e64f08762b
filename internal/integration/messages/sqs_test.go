package messages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/inbox/inboxtest"
	ibidsqs "github.com/ibid-go/ibid/inbox/sqs"
)

func TestSQS(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, inboxtest.Target{
		Parallel: true, AckTimeout: time.Second,
		Open: func(context.Context) (inboxtest.Broker, error) { return openSQS(), nil },
	})
}

// sqsBroker is as much of the service's JSON protocol as the adapter uses, with
// its visibility timeouts, spoken to by the real client.
type sqsBroker struct {
	http   *httptest.Server
	client *sqs.Client
	end    context.CancelFunc
	ended  context.Context

	mu       sync.Mutex
	n        int
	messages []*sqsMessage
	lose     int
}

type sqsMessage struct {
	id, body, receipt string
	visible           time.Time
}

func openSQS() *sqsBroker {
	b := &sqsBroker{}
	b.ended, b.end = context.WithCancel(context.Background())
	b.http = httptest.NewServer(b)
	b.client = sqs.New(sqs.Options{
		BaseEndpoint: aws.String(b.http.URL), Region: "none", RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
	return b
}

func (b *sqsBroker) Publish(_ context.Context, id, body string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, &sqsMessage{id: id, body: body})
	return nil
}

func (b *sqsBroker) Consume(ctx context.Context, c *inbox.Consumer, work func(context.Context, string) error) error {
	return ibidsqs.Consume(ctx, b.client, b.http.URL+"/1/q", c, func(ctx context.Context, m *types.Message) error { return work(ctx, *m.Body) }, nil)
}

func (b *sqsBroker) LoseAcks(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose += n
}

func (b *sqsBroker) Close() error {
	b.end()
	b.http.Close()
	return nil
}

func (b *sqsBroker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ReceiptHandle     string
		VisibilityTimeout int
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, verb, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var out any = struct{}{}
	switch verb {
	case "ReceiveMessage":
		out = map[string]any{"Messages": b.receive(r.Context(), time.Duration(in.VisibilityTimeout)*time.Second)}
	case "ChangeMessageVisibility":
		b.change(in.ReceiptHandle, func(m *sqsMessage) bool {
			m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
			return true
		})
	case "DeleteMessage":
		b.change(in.ReceiptHandle, func(*sqsMessage) bool {
			b.lose--
			return b.lose >= 0
		})
	default:
		http.Error(w, verb, http.StatusNotImplemented)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	json.NewEncoder(w).Encode(out)
}

func (b *sqsBroker) receive(ctx context.Context, hidden time.Duration) (out []any) {
	for {
		b.mu.Lock()
		now := time.Now()
		for _, m := range b.messages {
			if m.visible.After(now) || len(out) == 10 {
				continue
			}
			b.n++
			m.receipt, m.visible = fmt.Sprint("r", b.n), now.Add(hidden)
			out = append(out, map[string]any{
				"MessageId": fmt.Sprint("own", b.n), "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": md5Hex(m.body),
				"MessageAttributes": map[string]any{"message-id": map[string]any{"DataType": "String", "StringValue": m.id}},
			})
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return out
		case <-b.ended.Done():
			return out
		case <-time.After(10 * time.Millisecond):
		}
		if len(out) > 0 {
			return out
		}
	}
}

// change applies f to the message of receipt, and drops it unless f keeps it.
func (b *sqsBroker) change(receipt string, f func(*sqsMessage) (keep bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range b.messages {
		if m.receipt == receipt {
			if !f(m) {
				b.messages = append(b.messages[:i], b.messages[i+1:]...)
			}
			return
		}
	}
}
