package pg_test

import (
	"crypto/rand"
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
)

var records = flag.Int("records", 0, "records of TestBytesAtRest; 0 skips it")

// TestBytesAtRest prints what a completed record takes on disk, indexes
// included, beside what it keeps: key, token, fingerprint, scope and a result of 300
// bytes.
//
//	go test ./pg -run TestBytesAtRest -records 100000 -v
func TestBytesAtRest(t *testing.T) {
	if *records == 0 {
		t.Skip("measures nothing unless -records is given")
	}
	server := private(t, "synchronous_commit=off")
	pool := newPool(t, server.URL, func(c *pgxpool.Config) { c.MaxConns = 8 })
	s, table := openNew(t, pool)
	size := func() (n int64) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "SELECT pg_total_relation_size($1)", table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	result := make([]byte, 300)
	_, _ = rand.Read(result)
	const callers = 64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range *records / callers {
				k, c := newKey(), newClaim()
				r, err := s.Begin(t.Context(), k, c)
				if err == nil && !r.OwnedBy(c.Token) {
					err = fmt.Errorf("%v", r.State)
				}
				if err == nil {
					err = s.Complete(t.Context(), k, c.Token, result, ibid.Keep{Retain: keepHour.Retain})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	n := float64(*records / callers * callers)
	const payload = 32 + 16 + 32 + 32 + 300
	t.Logf("%.0f bytes a record, %.2f × the %d that it keeps", float64(size())/n, float64(size())/n/payload, payload)
}
