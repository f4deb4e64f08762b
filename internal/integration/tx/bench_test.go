package tx_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
		var ways []string
		do := make(map[string]func(context.Context, int64) error)
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
			{"plus", func(ctx context.Context, id int64) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, insert, "payer", 3000); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "INSERT INTO more VALUES (sha256($1), $2)", fmt.Appendf(nil, "%d-%d", os.Getpid(), id), body)
					return err
				})
			}},
			{"plus pipelined", func(ctx context.Context, id int64) error {
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
			ways = append(ways, way.name)
			do[way.name] = way.do
		}
		// The ways take turns, so that what else the machine does meets all of them.
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			took := make(map[string][]float64) // way → seconds of each turn
			for range b.N {
				for _, way := range ways {
					began := time.Now()
					var wg sync.WaitGroup
					for range callers {
						wg.Go(func() {
							for range max(256/callers, 8) {
								if err := do[way](b.Context(), n.Add(1)); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					took[way] = append(took[way], time.Since(began).Seconds())
				}
			}
			for _, way := range ways {
				slices.Sort(took[way])
				took[way] = took[way][len(took[way])/2:][:1]
				b.ReportMetric(float64(callers*max(256/callers, 8))/took[way][0], strings.ReplaceAll(way, " ", "-")+"/s")
			}
			b.ReportMetric(took["plus"][0]/took["ibid"][0], "of-plus")
			b.ReportMetric(took["plus pipelined"][0]/took["ibid"][0], "of-plus-pipelined")
			b.ReportMetric(took["bare"][0]/took["ibid"][0], "of-bare")
		})
	}
}
