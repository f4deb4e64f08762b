package tour

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	queueOrders = 30
	queueKills  = 4
	queueHold   = 20 * time.Millisecond
)

// queue is a NATS server in the tour's own process, with one queue.
type queue struct {
	server *natsserver.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
}

func startQueue(ctx context.Context, dir, name string) (*queue, error) {
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("start a queue: %w", err)
	}
	s.Start()
	q := &queue{server: s}
	if !s.ReadyForConnections(startTimeout) {
		q.close()
		return nil, errors.New("start a queue: it does not answer")
	}
	if q.nc, err = nats.Connect(s.ClientURL()); err == nil {
		q.js, err = jetstream.New(q.nc)
	}
	if err == nil {
		q.stream, err = q.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Retention: jetstream.WorkQueuePolicy, Duplicates: 100 * time.Millisecond})
	}
	if err == nil {
		_, err = q.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "billing", AckWait: time.Second})
	}
	if err != nil {
		q.close()
		return nil, fmt.Errorf("make a queue: %w", err)
	}
	return q, nil
}

func (q *queue) close() {
	if q.nc != nil {
		q.nc.Close()
	}
	q.server.Shutdown()
	q.server.WaitForShutdown()
}

// consumerKilled publishes every order twice, and kills the consumer again and
// again while it books them.
func consumerKilled(ctx context.Context, s *stage) error {
	name := "orders-" + s.id
	q, err := startQueue(ctx, filepath.Join(s.dir, "queue"), name)
	if err != nil {
		return err
	}
	defer q.close()
	file := filepath.Join(s.dir, "queue.db")
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	// No unique constraint: a duplicate can show.
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL; CREATE TABLE ledger (id TEXT)"); err != nil {
		return fmt.Errorf("make the ledger: %w", err)
	}
	for range 2 {
		for i := range queueOrders {
			order := fmt.Sprint("order-", i)
			if _, err := q.js.Publish(ctx, name, []byte(order), jetstream.WithMsgID(order)); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
		// The server forgets the IDs: within its window it would drop the second
		// message itself.
		if err := pauseFor(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
	s.step(fmt.Sprintf("%d orders, each published twice", queueOrders), fmt.Sprintf("%d messages on the queue", 2*queueOrders))
	booked := func() (n, orders int, err error) {
		err = db.QueryRowContext(ctx, "SELECT count(*), count(DISTINCT id) FROM ledger").Scan(&n, &orders)
		return n, orders, err
	}
	for kill := 1; kill <= queueKills; kill++ {
		if err := s.consumeUntil(ctx, q, name, file, func() (bool, error) {
			_, orders, err := booked()
			return orders >= kill*queueOrders/(queueKills+2), err
		}); err != nil {
			return err
		}
	}
	_, orders, err := booked()
	if err != nil {
		return err
	}
	s.step(fmt.Sprintf("$ kill -9, %d times, each in the middle of an order", queueKills), fmt.Sprintf("%d of %d orders are booked", orders, queueOrders))
	err = s.consumeUntil(ctx, q, name, file, func() (bool, error) {
		info, err := q.stream.Info(ctx)
		return err == nil && info.State.Msgs == 0, err
	})
	if err != nil {
		return err
	}
	n, orders, err := booked()
	if err != nil {
		return err
	}
	s.step("the consumer is left alone until the queue is empty", fmt.Sprintf("%d of %d orders are booked", orders, queueOrders))
	return all(expect("orders that were booked", queueOrders, orders), s.count("the queue", n, queueOrders))
}

// consumeUntil runs a consumer process until ok says so, and kills it.
func (s *stage) consumeUntil(ctx context.Context, q *queue, name, file string, ok func() (bool, error)) error {
	cmd := exec.Command(s.opts.Program, "consume", q.server.ClientURL(), name, file, "--hold", queueHold.String())
	tail := &tail{limit: 4 << 10}
	cmd.Stderr, cmd.Env = tail, ownEnviron()
	stdin, err := cmd.StdinPipe() // it ends with the tour, however that ends
	if err != nil {
		return fmt.Errorf("start a consumer: %w", err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a consumer: %w", err)
	}
	done, err := until(ctx, 2*patience, ok)
	_ = cmd.Process.Kill() // an error means that it has ended
	_ = cmd.Wait()         // that it was killed is no news
	switch {
	case err != nil:
		return err
	case !done:
		return &BrokenError{What: "the consumer", Expected: "progress", Seen: fmt.Sprintf("none for %v: %s", 2*patience, tail)}
	}
	return nil
}
