package tx_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
)

// A duplicate in another process waits for the transaction that holds the key,
// and does what its end makes of it.
func TestDuplicateElsewhereWaits(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, why string
		end       error
		replayed  bool
		runs      int64
	}{
		{"then replays", "the effect would happen twice", nil, true, 1},
		{"then takes over after a rollback", "the client would be told to come again for no reason", errors.New("no"), false, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) {
				other := join(t, b.kind, b.where, 0)
				call, id := b.newCall()
				var runs atomic.Int64
				holds, waits := make(chan struct{}), make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					_, _, err := b.engine.Do(t.Context(), call, b.work(id, &runs, func(context.Context) error {
						close(holds)
						<-waits
						return row.end
					}))
					if !errors.Is(err, row.end) {
						t.Errorf("first: %v, want %v", err, row.end)
					}
				})
				<-holds
				timer := time.AfterFunc(100*time.Millisecond, func() { close(waits) })
				defer timer.Stop()
				call.Tx = other.store
				_, out, err := other.engine.Do(t.Context(), call, other.work(id, &runs, nil))
				wg.Wait()
				if err != nil || out.Replayed != row.replayed || runs.Load() != row.runs || b.effects(id) != 1 {
					t.Errorf("%+v, %v, %d runs, %d effects: %s", out, err, runs.Load(), b.effects(id), row.why)
				}
			})
		})
	}
}

// Two hundred duplicates of a slow transaction: one runs, all get its answer,
// and meanwhile the pool has connections for others.
func TestStormDrainsNoPool(t *testing.T) {
	t.Parallel()
	const callers = 200
	each(t, func(t *testing.T, home *bench) {
		b := join(t, home.kind, home.where, 6)
		other, otherID := b.newCall()
		if b.kind.oneWriter { // nothing else can be written meanwhile; replays are served
			if _, _, err := b.engine.Do(t.Context(), other, b.work(otherID, nil, nil)); err != nil {
				t.Fatal(err)
			}
		}
		call, id := b.newCall()
		var runs atomic.Int64
		holds, goOn := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		answers := make([]string, callers)
		for i := range callers {
			wg.Go(func() {
				data, _, err := b.engine.Do(t.Context(), call, b.work(id, &runs, func(context.Context) error {
					close(holds)
					<-goOn
					return nil
				}))
				answers[i] = fmt.Sprint(string(data), err)
			})
		}
		<-holds
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, _, err := b.engine.Do(ctx, other, b.work(otherID, nil, nil)); err != nil {
			t.Errorf("another key, while %d wait: %v", callers, err)
		}
		if n := b.inUse(); n > b.kind.busy {
			t.Errorf("%d connections in use, want %d at most", n, b.kind.busy)
		}
		close(goOn)
		wg.Wait()
		for i, a := range answers {
			if a != "receipt "+id+"<nil>" {
				t.Fatalf("answer %d: %s", i, a)
			}
		}
		if runs.Load() != 1 || b.effects(id) != 1 {
			t.Errorf("%d runs, %d effects", runs.Load(), b.effects(id))
		}
	})
}

// A duplicate that does not wait is told so at once, while the first works.
func TestDuplicateHereDoesNotWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		twin, err := newEngine(t.Context(), b.opened) // of the same store, and with no memory in common
		if err != nil {
			t.Fatal(err)
		}
		call, id := b.newCall()
		call.Policy = &ibid.Policy{Wait: -1}
		var asked time.Duration
		_, _, err = b.engine.Do(t.Context(), call, b.work(id, nil, func(ctx context.Context) error {
			began := time.Now()
			for _, e := range []*ibid.Engine{b.engine, twin} {
				_, _, err := e.Do(t.Context(), call, b.work(id, nil, nil))
				if !errors.Is(err, ibid.ErrInProgress) {
					t.Errorf("%v, want ErrInProgress", err)
				}
			}
			asked = time.Since(began)
			return nil
		}))
		if err != nil || b.effects(id) != 1 || asked > 5*time.Second {
			t.Errorf("%v, %d effects, asked for %v", err, b.effects(id), asked)
		}
	})
}
