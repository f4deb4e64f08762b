package tx_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ibid-go/ibid"
)

// How work in a transaction ended: what stands in the database, and what the
// next caller gets.
func TestHowTransactionsEnd(t *testing.T) {
	t.Parallel()
	errDeclined := errors.New("declined")
	for _, row := range []struct {
		name, why string
		after     func(context.Context) error
		first     error // of the first call
		effects   int   // after the first call
		runs      int64 // after two calls
	}{
		{"success", "the order would be lost", nil, nil, 1, 1},
		{
			"a final error", "a refused order would be written, or asked for again",
			func(context.Context) error { return ibid.Final(errDeclined) }, errDeclined, 0, 1,
		},
		{
			"undone writes", "a kept 4xx would leave half an order behind",
			func(ctx context.Context) error { ibid.UndoWrites(ctx); return nil }, nil, 0, 1,
		},
		{
			"another error", "a failed attempt would block its own retry",
			func(context.Context) error { return errDeclined }, errDeclined, 0, 2,
		},
		{
			"a panic", "an attempt that vanished would leave half an order behind",
			func(context.Context) error { panic("boom") }, errPanicked, 0, 2,
		},
		{
			"Goexit", "the connection would never come back",
			func(context.Context) error { runtime.Goexit(); return nil }, errPanicked, 0, 2,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) {
				call, id := b.newCall()
				var runs atomic.Int64
				err := guarded(func() error {
					_, _, err := b.engine.Do(t.Context(), call, b.work(id, &runs, row.after))
					return err
				})
				if !errors.Is(err, row.first) || b.effects(id) != row.effects {
					t.Fatalf("%v and %d effects, want %v and %d: %s", err, b.effects(id), row.first, row.effects, row.why)
				}
				data, out, err := b.engine.Do(t.Context(), call, b.work(id, &runs, nil))
				if runs.Load() != row.runs || out.Replayed != (row.runs == 1) {
					t.Fatalf("%q, %+v, %v after %d runs: %s", data, out, err, runs.Load(), row.why)
				}
				if row.runs == 2 && (err != nil || b.effects(id) != 1) {
					t.Fatalf("second call: %v and %d effects", err, b.effects(id))
				}
			})
		})
	}
}

var errPanicked = errors.New("panicked")

// guarded runs f on a goroutine of its own, and survives what it does.
func guarded(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errPanicked
		defer func() { _ = recover(); done <- err }()
		err = f()
	}()
	return <-done
}

// Until COMMIT nobody else sees anything of it; after it everything is there.
func TestNothingIsVisibleBeforeCommit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		other := join(t, b.kind, b.where, 0)
		call, id := b.newCall()
		_, _, err := b.engine.Do(t.Context(), call, b.work(id, nil, func(ctx context.Context) error {
			op, err := other.engine.Inspect(ctx, other.engine.Digest(call.Key))
			if err != nil || op.Record.State != ibid.Absent || other.effects(id) != 0 {
				t.Errorf("in the middle: %v, %v, %d effects", op.Record.State, err, other.effects(id))
			}
			return nil
		}))
		op, lookErr := other.engine.Inspect(t.Context(), other.engine.Digest(call.Key))
		if err != nil || lookErr != nil || op.Record.State != ibid.Completed || other.effects(id) != 1 {
			t.Errorf("in the end: %v, %v, %v, %d effects", err, lookErr, op.Record.State, other.effects(id))
		}
	})
}

// A caller that hangs up at the end of the work does not cancel COMMIT: under
// synchronous replication it would be committed here and nowhere else.
func TestCommitOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		call, id := b.newCall()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var runs atomic.Int64
		_, _, err := b.engine.Do(ctx, call, b.work(id, &runs, func(context.Context) error { cancel(); return nil }))
		if err != nil || b.effects(id) != 1 {
			t.Fatalf("%v and %d effects, want the commit", err, b.effects(id))
		}
		data, out, err := b.engine.Do(t.Context(), call, b.work(id, &runs, nil))
		if err != nil || !out.Replayed || string(data) != "receipt "+id || runs.Load() != 1 {
			t.Fatalf("%q, %+v, %v, %d runs", data, out, err, runs.Load())
		}
	})
}

// An error of the database ends or spoils the transaction, and the work
// swallows it: what it writes afterwards must not be committed by itself, and no
// success be answered.
func TestSwallowedErrorCommitsNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		if err := b.auto(t.Context(), "INSERT INTO single VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		call, id := b.newCall()
		struck := false
		_, _, err := b.engine.Do(t.Context(), call, b.work(id, nil, func(ctx context.Context) error {
			struck = b.exec(ctx, b.kind.poison) != nil
			_ = b.charge(ctx, id, "after")
			return nil
		}))
		if !struck {
			t.Fatal("the statement succeeded: nothing was tested")
		}
		kept, countErr := b.count(t.Context(), fmt.Sprintf("SELECT count(*) FROM ledger WHERE id = '%s' AND part = 'charge'", id))
		if err == nil || kept != 0 || countErr != nil {
			t.Fatalf("%v, %d effects, %v: want an error and none", err, kept, countErr)
		}
		// The store's connection is as good as new.
		call, id = b.newCall()
		if _, _, err := b.engine.Do(t.Context(), call, b.work(id, nil, nil)); err != nil || b.effects(id) != 1 {
			t.Fatalf("the next call: %v, %d effects", err, b.effects(id))
		}
	})
}

// A record of lease mode and one of transactional mode are the same.
func TestModesShareTheirRecords(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		call, id := b.newCall()
		first, _, err := b.engine.Do(t.Context(), call, b.work(id, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		call.Tx = nil
		again, out, err := b.engine.Do(t.Context(), call, func(context.Context) ([]byte, error) { return nil, errors.New("ran") })
		if err != nil || !out.Replayed || string(again) != string(first) {
			t.Fatalf("%q, %v, want the replay of %q", again, err, first)
		}
		call.Fingerprint[0]++
		call.Tx = b.store
		if _, _, err := b.engine.Do(t.Context(), call, b.work(id, nil, nil)); !errors.Is(err, ibid.ErrMismatch) {
			t.Fatalf("%v, want ErrMismatch", err)
		}
		// A claim of lease mode that vanished: the policy decides, here Refuse.
		call, id = b.newCall()
		call.Tx = nil
		_, _, err = b.engine.Do(t.Context(), call, func(context.Context) ([]byte, error) { return nil, context.Canceled })
		if !errors.Is(err, ibid.ErrUnknown) {
			t.Fatal(err)
		}
		call.Tx = b.store
		if _, _, err := b.engine.Do(t.Context(), call, b.work(id, nil, nil)); !errors.Is(err, ibid.ErrUnknown) || b.effects(id) != 0 {
			t.Fatalf("%v, %d effects: want ErrUnknown", err, b.effects(id))
		}
		call.Policy = &ibid.Policy{Takeover: ibid.Retry}
		if _, out, err := b.engine.Do(t.Context(), call, b.work(id, nil, nil)); err != nil || out.Attempt != 2 || b.effects(id) != 1 {
			t.Fatalf("%v, attempt %d, %d effects: want a takeover", err, out.Attempt, b.effects(id))
		}
	})
}
