package tx_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/servers"
	"github.com/ibid-go/ibid/pgxstore"
)

// BenchmarkPostgresTransaction compares a business transaction of one insert with
// the same under ibid, and with what is the least that a record costs: one
// more insert of as many bytes. Both of the others are written as pipelines, too.
func BenchmarkPostgresTransaction(b *testing.B) {
	server, err := servers.StartPostgres("synchronous_commit=on", "max_wal_size=4GB")
	servers.Need(b, err)
	defer server.Stop()
	config, err := pgxpool.ParseConfig(newSchema(b, server.URL))
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 70
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	store, err := pgxstore.New(b.Context(), pool, nil)
	if err != nil {
		b.Fatal(err)
	}
	engine, err := ibid.New(b.Context(), store, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), `CREATE TABLE business (id bigserial PRIMARY KEY, payer text, amount int);
		CREATE TABLE more (key bytea PRIMARY KEY, body bytea)`); err != nil {
		b.Fatal(err)
	}
	const insert = "INSERT INTO business (payer, amount) VALUES ($1, $2)"
	body := make([]byte, 200)
	var n atomic.Int64
	for _, callers := range []int{1, 16, 64} {
		for _, way := range []struct {
			name string
			do   func(ctx context.Context, id int64) error
		}{
			{"bare", func(ctx context.Context, _ int64) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, insert, "payer", 3000)
					return err
				})
			}},
			{"one more insert", func(ctx context.Context, id int64) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, insert, "payer", 3000); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "INSERT INTO more VALUES (sha256($1), $2)", fmt.Appendf(nil, "%d-%d", os.Getpid(), id), body)
					return err
				})
			}},
			{"one more insert, with COMMIT", func(ctx context.Context, id int64) error {
				conn, err := pool.Acquire(ctx)
				if err != nil {
					return err
				}
				defer conn.Release()
				if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
					return err
				}
				if _, err := conn.Exec(ctx, insert, "payer", 3000); err != nil {
					return err
				}
				var batch pgx.Batch
				batch.Queue("INSERT INTO more VALUES (sha256($1), $2)", fmt.Appendf(nil, "%d-%d", os.Getpid(), id), body)
				batch.Queue("COMMIT")
				return conn.SendBatch(ctx, &batch).Close()
			}},
			{"ibid", func(ctx context.Context, id int64) error {
				call := ibid.Call{Key: ibid.Key{Scope: "bench", ID: fmt.Sprint(id)}, Fingerprint: ibid.Fingerprint{1}, Tx: store}
				_, _, err := engine.Do(ctx, call, func(ctx context.Context) ([]byte, error) {
					tx, _ := pgxstore.Tx(ctx)
					_, err := tx.Exec(ctx, insert, "payer", 3000)
					return body, err
				})
				return err
			}},
		} {
			b.Run(fmt.Sprintf("%d callers/%s", callers, way.name), func(b *testing.B) {
				var wg sync.WaitGroup
				left := atomic.Int64{}
				left.Store(int64(b.N))
				b.ResetTimer()
				for range callers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := way.do(b.Context(), n.Add(1)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
			})
		}
	}
}
