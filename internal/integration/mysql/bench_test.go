package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// BenchmarkMariaDB compares first runs with two plain commits, and replays with
// a SELECT by primary key, of rows as wide, prepared, on the same connections. Each
// iteration is a round in which both take a turn of 300 ms; reported are the median of the
// rounds' quotients, the lowest and the highest.
//
//	go test -run '^$' -bench MariaDB -benchtime 5x ./mysql
func BenchmarkMariaDB(b *testing.B) {
	db := newDB(b, private(b).DSN)
	db.SetMaxOpenConns(64)
	db.SetMaxIdleConns(64)
	store := open(b, db, &sqlstore.MySQLOptions{Table: "records"})
	if _, err := db.Exec(`CREATE TABLE plain (id BINARY(32) PRIMARY KEY, state TINYINT, token BINARY(16),
		fingerprint BINARY(32), scope BINARY(32), gone BIGINT, result BLOB) ENGINE=InnoDB`); err != nil {
		b.Fatal(err)
	}
	prepare := func(query string) *sql.Stmt {
		s, err := db.Prepare(query)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		return s
	}
	insert := prepare("INSERT INTO plain VALUES (?, 1, ?, ?, ?, 1, NULL)")
	update := prepare("UPDATE plain SET state = 2, result = ?, gone = 2 WHERE id = ? AND token = ?")
	read := prepare("SELECT token, fingerprint, gone, result FROM plain WHERE id = ?")
	ctx := context.Background()
	result := make([]byte, 300)
	first := func(k ibid.Digest) error {
		c := newClaim()
		if r, err := store.Begin(ctx, k, c); err != nil || !r.OwnedBy(c.Token) {
			return fmt.Errorf("Begin: %v, %w", r.State, err)
		}
		return store.Complete(ctx, k, c.Token, result, keepHour)
	}
	plain := func(k ibid.Digest) error {
		c := newClaim()
		if _, err := insert.ExecContext(ctx, k[:], c.Token[:], c.Fingerprint[:], c.Scope[:]); err != nil {
			return err
		}
		_, err := update.ExecContext(ctx, result, k[:], c.Token[:])
		return err
	}
	var keys [500]ibid.Digest
	for i := range keys {
		keys[i] = newKey()
		if err := errors.Join(first(keys[i]), plain(keys[i])); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Uint64
	known := func() ibid.Digest { return keys[next.Add(1)%uint64(len(keys))] }
	for _, callers := range []int{1, 16, 64} {
		for _, way := range []struct {
			name         string
			store, plain func() error
		}{
			{"first", func() error { return first(newKey()) }, func() error { return plain(newKey()) }},
			{"replay", func() error {
				r, err := store.Begin(ctx, known(), newClaim())
				if err == nil && r.State != ibid.Completed {
					err = fmt.Errorf("Begin: %v", r.State)
				}
				return err
			}, func() error {
				k := known()
				var token, print, value []byte
				var gone int64
				return read.QueryRowContext(ctx, k[:]).Scan(&token, &print, &gone, &value)
			}},
		} {
			b.Run(fmt.Sprintf("%s/callers=%d", way.name, callers), func(b *testing.B) {
				rate(b, callers, way.store)
				rate(b, callers, way.plain)
				var ratios, rates []float64
				for b.Loop() {
					p := rate(b, callers, way.plain)
					s := rate(b, callers, way.store)
					ratios, rates = append(ratios, s/p), append(rates, s)
				}
				slices.Sort(ratios)
				slices.Sort(rates)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(rates[len(rates)/2], "per-s")
				b.ReportMetric(ratios[len(ratios)/2], "ratio")
				b.ReportMetric(ratios[0], "lowest")
				b.ReportMetric(ratios[len(ratios)-1], "highest")
			})
		}
	}
}

// rate is how often op runs in a second, called by n at once.
func rate(b *testing.B, n int, op func() error) float64 {
	const turn = 300 * time.Millisecond
	var done atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for range n {
		callers.Go(func() {
			for time.Since(began) < turn {
				if err := op(); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	callers.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
