package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
	"github.com/ibid-go/ibid/inbox"
	ibidnats "github.com/ibid-go/ibid/inbox/nats"
	"github.com/ibid-go/ibid/sqlstore"
)

// consumeCommand books the orders of a queue, with the transactional inbox. The
// tour runs it as a process of its own, to kill it.
type consumeCommand struct {
	URL   string        `arg:"" help:"NATS server."`
	Queue string        `arg:"" help:"Stream, with the consumer billing."`
	File  string        `arg:"" help:"SQLite file of the records and of the table ledger."`
	Hold  time.Duration `help:"How long to wait between the effect and its commit."`
}

// Run implements kong's command. It ends when standard input does.
func (c *consumeCommand) Run(ctx context.Context, std streams) error {
	store, err := stores.Open(ctx, "sqlite:"+c.File, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	engine, err := ibid.New(ctx, store, nil)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(c.URL)
	if err != nil {
		return fmt.Errorf("connect to the queue: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	queue, err := js.Consumer(ctx, c.Queue, "billing")
	if err != nil {
		return fmt.Errorf("find the queue: %w", err)
	}
	inTx, _ := ibid.As[ibid.TxStore](store)
	consumer, err := inbox.New(engine, "billing", ibid.Retry, &inbox.Options{
		AckTimeout: queue.CachedInfo().Config.AckWait,
		RetryMin:   10 * time.Millisecond,
		Tx:         inTx,
		DeadLetter: func(_ context.Context, m inbox.Message, err error) error {
			fmt.Fprintf(std.err, "rejected %s: %v\n", m.ID, err)
			return nil
		},
	})
	if err != nil {
		return err
	}
	handler, err := ibidnats.Handler(ctx, consumer, c.book, nil)
	if err != nil {
		return err
	}
	running, err := queue.Consume(handler)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, std.in) // an error is an end, too
	running.Drain()
	<-running.Closed()
	return nil
}

func (c *consumeCommand) book(ctx context.Context, msg jetstream.Msg) error {
	tx, ok := sqlstore.Tx(ctx)
	if !ok {
		return errors.New("the store has no transactions")
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (id) VALUES (?)", string(msg.Data())); err != nil {
		return err
	}
	time.Sleep(c.Hold)
	return nil
}
