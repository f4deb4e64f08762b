package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

func BenchmarkProto(b *testing.B) {
	for _, batch := range []int{1, 128} {
		b.Run(map[int]string{1: "single", 128: "group"}[batch], func(b *testing.B) {
			db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "x.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			s, err := sqlstore.OpenSQLite(context.Background(), db, &sqlstore.SQLiteOptions{MaxBatch: batch})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			res := make([]byte, 300)
			b.ResetTimer()
			var wg sync.WaitGroup
			work := make(chan struct{}, 64)
			for range 64 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for range work {
						var key ibid.Digest
						rand.Read(key[:])
						c := ibid.Claim{Token: ibid.NewToken(), Lease: time.Minute, Window: time.Hour}
						r, err := s.Begin(context.Background(), key, c)
						if err != nil || !r.OwnedBy(c.Token) {
							b.Error(err)
						}
						if err := s.Complete(context.Background(), key, c.Token, res, ibid.Keep{Retain: time.Hour}); err != nil {
							b.Error(err)
						}
					}
				}()
			}
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}
