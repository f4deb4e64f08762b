package ibid_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// What the engine costs over a store in memory, with a secret set.
func BenchmarkDo(b *testing.B) {
	result := make([]byte, 300)
	work := func(context.Context) ([]byte, error) { return result, nil }
	newEngine := func(b *testing.B) *ibid.Engine {
		return newEngine(b, memstore.New(&memstore.Options{MaxRecords: -1}), &ibid.Options{Secret: []byte("0123456789abcdef")})
	}
	b.Run("first", func(b *testing.B) {
		e := newEngine(b)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			b.StopTimer()
			call := order
			call.Key.ID = fmt.Sprint(i)
			b.StartTimer()
			if _, _, err := e.Do(b.Context(), call, work); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("replay", func(b *testing.B) {
		e := newEngine(b)
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := e.Do(b.Context(), order, work); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The allocations of one call, which the HTTP middleware's budget builds on.
func TestAllocations(t *testing.T) {
	e := newEngine(t, nil, &ibid.Options{Secret: []byte("0123456789abcdef")})
	result := make([]byte, 300)
	work := func(context.Context) ([]byte, error) { return result, nil }
	ctx := t.Context()
	i := 0
	calls := make([]ibid.Call, 2000)
	for i := range calls {
		calls[i] = ibid.Call{Key: ibid.Key{Scope: "shop", ID: fmt.Sprint(i)}}
	}
	first := testing.AllocsPerRun(1000, func() {
		i++
		e.Do(ctx, calls[i], work)
	})
	replay := testing.AllocsPerRun(1000, func() { e.Do(ctx, calls[1], work) })
	t.Logf("first run %v allocations, replay %v", first, replay)
	if first > 8 || replay > 2 {
		t.Errorf("first run %v allocations, replay %v; want at most 8 and 2", first, replay)
	}
}
