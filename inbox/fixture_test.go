package inbox_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/memstore"
)

var (
	errDown = errors.New("downstream is down")
	errCut  = errors.New("connection cut")
)

// broken is a store whose verbs fail while they are named in down.
type broken struct {
	ibid.Store
	mu   sync.Mutex
	down map[string]bool
}

func (b *broken) set(verb string, down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down == nil {
		b.down = make(map[string]bool)
	}
	b.down[verb] = down
}

func (b *broken) fails(verb string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down[verb] {
		return errCut
	}
	return nil
}

func (b *broken) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	if err := b.fails("begin"); err != nil {
		return ibid.Record{}, err
	}
	return b.Store.Begin(ctx, key, claim)
}

func (b *broken) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	if err := b.fails("extend"); err != nil {
		return err
	}
	return b.Store.Extend(ctx, key, token, lease)
}

func (b *broken) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if err := b.fails("complete"); err != nil {
		return err
	}
	return b.Store.Complete(ctx, key, token, result, keep)
}

func (b *broken) Unwrap() ibid.Store { return b.Store }

// bench is a consumer on a store that can be broken.
type bench struct {
	t        *testing.T
	store    *broken
	engine   *ibid.Engine
	consumer *inbox.Consumer
	message  inbox.Message
	effects  atomic.Int64
}

func newBench(t *testing.T, takeover ibid.Takeover, opts *inbox.Options) *bench {
	t.Helper()
	b := &bench{
		t: t, store: &broken{Store: new(memstore.Store)},
		message: inbox.Message{Source: "orders", ID: "17", Body: []byte("3000 TWD")},
	}
	var err error
	if b.engine, err = ibid.New(t.Context(), b.store, nil); err != nil {
		t.Fatal(err)
	}
	if b.consumer, err = inbox.New(b.engine, "billing", takeover, opts); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) effect(context.Context) error {
	b.effects.Add(1)
	return nil
}

func (b *bench) process(work func(context.Context) error) inbox.Decision {
	return b.consumer.Process(b.t.Context(), b.message, nil, work)
}

// state is what the store says of the message.
func (b *bench) state() ibid.Record {
	b.t.Helper()
	op, err := b.engine.Inspect(b.t.Context(), b.engine.Digest(b.consumer.Key(b.message)))
	if err != nil {
		b.t.Fatal(err)
	}
	return op.Record
}

func (b *bench) want(d inbox.Decision, verdict inbox.Verdict, is error, effects int) {
	b.t.Helper()
	n := int(b.effects.Load())
	if d.Verdict != verdict || is != nil && !errors.Is(d.Err, is) || n != effects {
		b.t.Fatalf("%v (%v) after %d effects, want %v (%v) after %d", d.Verdict, d.Err, n, verdict, is, effects)
	}
}
