package pg_test

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
)

var costs = flag.Int("costs", 0, "rounds of TestCosts; 0 skips it")

// TestCosts prints the processor time that the server spends on each verb, the
// least of many rounds: a busy machine does not change that much.
//
//	go test ./pg -run TestCosts -costs 20 -v
func TestCosts(t *testing.T) {
	if *costs == 0 {
		t.Skip("measures nothing unless -costs is given")
	}
	server := private(t, "synchronous_commit=off")
	pool := newPool(t, server.URL, func(c *pgxpool.Config) { c.MaxConns = 1 })
	store, _ := openNew(t, pool)
	ctx := t.Context()
	var pid int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE plain (key bytea PRIMARY KEY, state int2, token bytea, fingerprint bytea, gone int8, result bytea)"); err != nil {
		t.Fatal(err)
	}
	ran := func() (ns int64) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		_, _ = fmt.Sscan(string(b), &ns)
		return ns
	}
	const calls = 200
	result := make([]byte, 300)
	var keys [calls]ibid.Digest
	var tokens [calls]ibid.Token
	claim := func(i int) ibid.Claim {
		return ibid.Claim{Token: tokens[i], Fingerprint: ibid.Fingerprint(keys[i]), Lease: 30 * time.Second, Window: 24 * time.Hour}
	}
	least := map[string][2]float64{} // verb → µs of the server's, and of this process's
	own := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	verbs := []struct {
		name string
		call func(i int) error
	}{
		{"insert", func(i int) error {
			_, err := pool.Exec(ctx, "INSERT INTO plain VALUES ($1, 1, $2, $3, $4, NULL)", keys[i][:], tokens[i][:], keys[i][:], int64(1))
			return err
		}},
		{"update", func(i int) error {
			_, err := pool.Exec(ctx, "UPDATE plain SET state = 2, result = $3, gone = $4 WHERE key = $1 AND token = $2", keys[i][:], tokens[i][:], result, int64(2))
			return err
		}},
		{"select", func(i int) error {
			var token, print, res []byte
			var gone int64
			return pool.QueryRow(ctx, "SELECT token, fingerprint, gone, result FROM plain WHERE key = $1", keys[i][:]).Scan(&token, &print, &gone, &res)
		}},
		{"begin", func(i int) error { _, err := store.Begin(ctx, keys[i], claim(i)); return err }},
		{"extend", func(i int) error { return store.Extend(ctx, keys[i], tokens[i], time.Minute) }},
		{"complete", func(i int) error {
			return store.Complete(ctx, keys[i], tokens[i], result, ibid.Keep{Retain: 24 * time.Hour})
		}},
		{"replay", func(i int) error { _, err := store.Begin(ctx, keys[i], claim(i)); return err }},
		{"look", func(i int) error { _, err := store.Look(ctx, keys[i]); return err }},
	}
	for range *costs {
		for i := range calls {
			keys[i], tokens[i] = newKey(), ibid.NewToken()
		}
		for _, v := range verbs {
			was, mine := ran(), own()
			for i := range calls {
				if err := v.call(i); err != nil {
					t.Fatal(v.name, err)
				}
			}
			l, first := least[v.name], least[v.name] == [2]float64{}
			for n, spent := range [2]int64{ran() - was, own() - mine} {
				if us := float64(spent) / 1000 / calls; first || us < l[n] {
					l[n] = us
				}
			}
			least[v.name] = l
		}
	}
	for _, v := range verbs {
		t.Logf("%-10s server %6.1f µs, client %6.1f µs", v.name, least[v.name][0], least[v.name][1])
	}
}
