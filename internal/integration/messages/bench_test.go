package messages

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/pgxstore"
)

// BenchmarkInboxPostgres compares a handler that writes one row per message in a
// transaction with the same handler behind the transactional inbox, in rounds
// that take turns, and reports the median of their ratios:
//
//	mark   Inbox.Mark in the handler's own transaction
//	tx     Consumer.Process with Options.Tx
//	batch  MarkBatch, 16 messages to a transaction, against 16 without it
func BenchmarkInboxPostgres(b *testing.B) {
	for _, consumers := range []int{1, 64} {
		b.Run(fmt.Sprint("consumers=", consumers), func(b *testing.B) { benchInbox(b, consumers) })
	}
}

func benchInbox(b *testing.B, consumers int) {
	db := openPostgresWith(b, 64)
	engine, err := ibid.New(b.Context(), db.store, nil)
	if err != nil {
		b.Fatal(err)
	}
	inTx, ok := ibid.As[ibid.TxStore](db.store)
	if !ok {
		b.Fatal("no transactions")
	}
	consumer, err := inbox.New(engine, "bench", ibid.Retry, &inbox.Options{Tx: inTx})
	if err != nil {
		b.Fatal(err)
	}
	box := inbox.Of(consumer, db.store)
	var ids atomic.Int64
	message := func() inbox.Message {
		id := fmt.Sprint(ids.Add(1))
		return inbox.Message{Source: "q", ID: id, Body: []byte(id)}
	}
	inOwn := func(ctx context.Context, n int, mark bool) error {
		tx, err := db.begin(ctx)
		if err != nil {
			return err
		}
		defer db.rollback(ctx, tx)
		batch := make([]inbox.Message, n)
		for i := range batch {
			batch[i] = message()
		}
		if mark {
			if _, err := box.MarkBatch(ctx, tx, batch); err != nil {
				return err
			}
		}
		for _, m := range batch {
			if err := db.effect(ctx, tx, m.ID); err != nil {
				return err
			}
		}
		return db.commit(ctx, tx)
	}
	kinds := []func(context.Context) (int, error){
		func(ctx context.Context) (int, error) { return 1, inOwn(ctx, 1, false) },
		func(ctx context.Context) (int, error) { return 1, inOwn(ctx, 1, true) },
		func(ctx context.Context) (int, error) {
			m := message()
			d := consumer.Process(ctx, m, nil, func(ctx context.Context) error {
				tx, _ := pgxstore.Tx(ctx)
				return db.effect(ctx, tx, m.ID)
			})
			if d.Verdict != inbox.Ack {
				return 1, fmt.Errorf("%v: %w", d.Verdict, d.Err)
			}
			return 1, nil
		},
		func(ctx context.Context) (int, error) { return 16, inOwn(ctx, 16, false) },
		func(ctx context.Context) (int, error) { return 16, inOwn(ctx, 16, true) },
	}
	rate := func(kind func(context.Context) (int, error), d time.Duration) float64 {
		var n atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for range consumers {
			all.Go(func() {
				for time.Since(began) < d {
					k, err := kind(context.Background())
					if err != nil {
						b.Error(err)
						return
					}
					n.Add(int64(k))
				}
			})
		}
		all.Wait()
		return float64(n.Load()) / time.Since(began).Seconds()
	}
	ratios := make([][]float64, len(kinds))
	var plain []float64
	for b.Loop() {
		var rates [5]float64
		for i, kind := range kinds {
			rates[i] = rate(kind, 150*time.Millisecond)
		}
		plain = append(plain, rates[0])
		ratios[1] = append(ratios[1], rates[1]/rates[0])
		ratios[2] = append(ratios[2], rates[2]/rates[0])
		ratios[3] = append(ratios[3], rates[4]/rates[0])
		ratios[4] = append(ratios[4], rates[4]/rates[3])
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(plain), "plain/s")
	b.ReportMetric(median(ratios[1]), "mark/plain")
	b.ReportMetric(median(ratios[2]), "tx/plain")
	b.ReportMetric(median(ratios[3]), "batch/plain")
	b.ReportMetric(median(ratios[4]), "batch/plain-batch")
}

func openPostgresWith(t testing.TB, conns int) *database[pgx.Tx] {
	t.Helper()
	return openPostgresAt(t, fmt.Sprintf("%s&pool_max_conns=%d", postgresURL(t), conns))
}
