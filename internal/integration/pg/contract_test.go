package pg_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	pool := newPool(t, serverURL(t), func(c *pgxpool.Config) { c.MaxConns = 16 })
	for _, row := range []struct {
		name string
		opts pgxstore.Options
	}{
		{"all shared", pgxstore.Options{BatchFrom: 1}},
		{"as it comes", pgxstore.Options{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, target(t, pool, row.opts))
		})
	}
}

// target is the store under test, in a table of its own for every case.
func target(t *testing.T, pool *pgxpool.Pool, opts pgxstore.Options) storetest.Target {
	var tablesOf sync.Map // store → table
	openIn := func(ctx context.Context, table string) (ibid.Store, func() error, error) {
		opts := opts
		opts.Table = table
		s, err := pgxstore.New(ctx, pool, &opts)
		if err != nil {
			return nil, nil, err
		}
		tablesOf.Store(ibid.Store(s), table)
		return s, s.Close, nil
	}
	return storetest.Target{
		Open: func(ctx context.Context) (ibid.Store, func() error, error) { return openIn(ctx, newTable(t, pool)) },
		Second: func(ctx context.Context, store ibid.Store) (ibid.Store, func() error, error) {
			table, _ := tablesOf.Load(store)
			return openIn(ctx, table.(string))
		},
		Corrupt: func(ctx context.Context, store ibid.Store, key ibid.Digest, change func([]byte) []byte) error {
			table, _ := tablesOf.Load(store)
			return corrupt(ctx, pool, table.(string), key, change)
		},
		Tick:     200 * time.Millisecond,
		Callers:  40,
		Parallel: true,
	}
}

// corrupt changes a row as if it were one string of bytes.
func corrupt(ctx context.Context, pool *pgxpool.Pool, table string, key ibid.Digest, change func([]byte) []byte) error {
	if _, err := pool.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s_state_check, DROP CONSTRAINT IF EXISTS %s_token_check`, table, table, table)); err != nil {
		return err
	}
	var n struct {
		Version, State                int16
		Attempt, Vanished, Generation int32
		Fence, LeaseEnd, WindowEnd    int64
		Gone                          int64
	}
	var token, print, scope, sum, label, steps, result []byte
	var resultSum *int32
	err := pool.QueryRow(ctx, "SELECT version, state, attempt, vanished, generation, fence, lease_end, window_end, gone, token, fingerprint, scope, sum, label, steps, result_sum, result FROM "+table+" WHERE key = $1", key[:]).
		Scan(&n.Version, &n.State, &n.Attempt, &n.Vanished, &n.Generation, &n.Fence, &n.LeaseEnd, &n.WindowEnd, &n.Gone, &token, &print, &scope, &sum, &label, &steps, &resultSum, &result)
	if err != nil {
		return err
	}
	b, err := binary.Append(nil, binary.LittleEndian, &n)
	if err != nil {
		return err
	}
	numbers := len(b)
	parts := []*[]byte{&token, &print, &scope, &sum, &label, &steps, &result}
	for _, p := range parts {
		b = append(b, *p...)
	}
	b = change(b)
	last := 0 // what a longer string adds goes to the last part that is there
	for i, p := range parts {
		if len(*p) > 0 {
			last = i
		}
	}
	if len(b) < numbers {
		b = append(b, make([]byte, numbers-len(b))...)
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &n); err != nil {
		return err
	}
	rest := b[numbers:]
	for i, p := range parts {
		k := min(len(*p), len(rest))
		if i == last {
			k = len(rest)
		}
		if k != len(*p) || len(*p) > 0 {
			*p = rest[:k]
		}
		rest = rest[k:]
	}
	_, err = pool.Exec(ctx, "UPDATE "+table+` SET version = $2, state = $3, attempt = $4, vanished = $5, generation = $6, fence = $7,
		lease_end = $8, window_end = $9, gone = $10, token = $11, fingerprint = $12, scope = $13, sum = $14, label = $15, steps = $16, result = $17 WHERE key = $1`,
		key[:], n.Version, n.State, n.Attempt, n.Vanished, n.Generation, n.Fence, n.LeaseEnd, n.WindowEnd, n.Gone, token, print, scope, sum, label, steps, result)
	return err
}
