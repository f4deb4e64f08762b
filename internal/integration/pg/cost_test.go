package pg_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
)

var costs = flag.Int("costs", 0, "calls of TestCosts; 0 skips it")

// TestCosts prints the processor time that the server spends on a statement,
// which a busy machine does not change much.
func TestCosts(t *testing.T) {
	if *costs == 0 {
		t.Skip("measures nothing unless -costs is given")
	}
	server := private(t)
	pool := newPool(t, server.URL, func(c *pgxpool.Config) { c.MaxConns = 1 })
	store, table := openNew(t, pool)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE plain (key bytea PRIMARY KEY, state int2, token bytea, fingerprint bytea, gone int8, result bytea)"); err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	ran := func() (ns int64) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		fmt.Sscan(string(b), &ns)
		return ns
	}
	result := make([]byte, 300)
	var keys []ibid.Digest
	var tokens []ibid.Token
	cost := func(name string, f func(i int) error) {
		for i := range *costs {
			if i == *costs/2 {
				t.Helper()
			}
			if err := f(i); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	measure := func(name string, f func(i int) error) {
		began, was := time.Now(), ran()
		cost(name, f)
		t.Logf("%-12s %6.1f µs of the server's processor, %6.1f µs in all", name,
			float64(ran()-was)/1000/float64(*costs), float64(time.Since(began).Microseconds())/float64(*costs))
	}
	ctx := t.Context()
	for range *costs {
		keys, tokens = append(keys, newKey()), append(tokens, ibid.NewToken())
	}
	for range 2 {
		clear := func() { pool.Exec(ctx, "TRUNCATE plain"); pool.Exec(ctx, "DELETE FROM "+table); pool.Exec(ctx, "VACUUM ANALYZE") }
		clear()
		measure("insert", func(i int) error {
			_, err := pool.Exec(ctx, "INSERT INTO plain VALUES ($1, 1, $2, $3, $4, NULL)", keys[i][:], tokens[i][:], keys[i][:], int64(1))
			return err
		})
		measure("update", func(i int) error {
			_, err := pool.Exec(ctx, "UPDATE plain SET state = 2, result = $3, gone = $4 WHERE key = $1 AND token = $2", keys[i][:], tokens[i][:], result, int64(2))
			return err
		})
		measure("select", func(i int) error {
			var token, print, res []byte
			var gone int64
			return pool.QueryRow(ctx, "SELECT token, fingerprint, gone, result FROM plain WHERE key = $1", keys[i][:]).Scan(&token, &print, &gone, &res)
		})
		measure("begin", func(i int) error {
			_, err := store.Begin(ctx, keys[i], ibid.Claim{Token: tokens[i], Fingerprint: ibid.Fingerprint(keys[i]), Lease: 30 * time.Second, Window: 24 * time.Hour})
			return err
		})
		measure("complete", func(i int) error {
			return store.Complete(ctx, keys[i], tokens[i], result, ibid.Keep{Retain: 24 * time.Hour})
		})
		measure("replay", func(i int) error {
			_, err := store.Begin(ctx, keys[i], ibid.Claim{Token: tokens[i], Fingerprint: ibid.Fingerprint(keys[i]), Lease: 30 * time.Second, Window: 24 * time.Hour})
			return err
		})
		measure("look", func(i int) error {
			_, err := store.Look(ctx, keys[i])
			return err
		})
	}
	_ = pgx.ErrNoRows
}
