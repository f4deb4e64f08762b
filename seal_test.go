package ibid_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

func sealKey(id uint32) ibid.SealKey {
	return ibid.SealKey{ID: id, Key: bytes.Repeat([]byte{byte(id)}, 32)}
}

// kept returns what the store keeps of order.
func kept(t *testing.T, e *ibid.Engine, store ibid.Store) ibid.Record {
	t.Helper()
	rec, err := store.Look(t.Context(), e.Digest(order.Key))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestSealedRecordsShowNothing(t *testing.T) {
	t.Parallel()
	const pan = "4111111111111111"
	store := new(memstore.Store)
	var log bytes.Buffer
	e := newEngine(t, store, &ibid.Options{
		Secret:  []byte("0123456789abcdef"),
		Seal:    []ibid.SealKey{sealKey(1)},
		Observe: []func(context.Context, ibid.Event){ibid.LogTo(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))},
	})
	call := ibid.Call{Key: ibid.Key{Scope: "user " + pan, ID: pan}, Fingerprint: e.Fingerprint([]byte(pan)), Label: "card " + pan}
	runs := 0
	must(t, e, call, returns("paid with "+pan, &runs))
	must(t, e, call, returns("", &runs))
	rec, err := store.Look(t.Context(), e.Digest(call.Key))
	if err != nil {
		t.Fatal(err)
	}
	dump := string(rec.Result) + string(rec.Label) + string(rec.Fingerprint[:]) + string(rec.Scope[:]) + log.String()
	if strings.Contains(dump, pan) {
		t.Fatalf("the card number shows in the store or the log: %q", dump)
	}
	if !strings.Contains(log.String(), "completed") || !strings.Contains(log.String(), "replayed") {
		t.Fatalf("log: %s", log.String())
	}
	op, err := e.Inspect(t.Context(), e.Digest(call.Key))
	if err != nil || op.Label != "card "+pan || string(op.Value) != "paid with "+pan {
		t.Fatalf("%+v %v", op, err)
	}
}

func TestLabelIsDroppedWhereNothingSeals(t *testing.T) {
	t.Parallel()
	store := new(memstore.Store)
	e := newEngine(t, store, nil)
	call := order
	call.Label = "secret"
	runs := 0
	must(t, e, call, returns("", &runs))
	if rec := kept(t, e, store); len(rec.Label) != 0 {
		t.Fatalf("label at rest: %q", rec.Label)
	}
}

func TestSealingKeysRotate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		then []ibid.SealKey
		want error
	}{
		{"the old key still opens", []ibid.SealKey{sealKey(2), sealKey(1)}, nil},
		{"without the old key nothing runs", []ibid.SealKey{sealKey(2)}, ibid.ErrDamaged},
		{"without any key nothing runs", nil, ibid.ErrDamaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := new(memstore.Store)
			runs := 0
			must(t, newEngine(t, store, &ibid.Options{Seal: []ibid.SealKey{sealKey(1)}}), order, returns("first", &runs))
			e := newEngine(t, store, &ibid.Options{Seal: tc.then})
			data, _, err := e.Do(t.Context(), order, returns("again", &runs))
			if runs != 1 {
				t.Fatal("a result that cannot be opened was treated as absent")
			}
			if tc.want != nil {
				wants(t, err, tc.want)
			} else if err != nil || string(data) != "first" {
				t.Fatalf("%q %v", data, err)
			}
		})
	}
}

// altered is a store that hands out results changed at rest.
type altered struct {
	ibid.Store
	alter func([]byte) []byte
}

func (a altered) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	rec, err := a.Store.Begin(ctx, key, claim)
	if len(rec.Result) > 0 {
		rec.Result = a.alter(rec.Result)
	}
	return rec, err
}

// Every byte of a result at rest, flipped: the exact answer or an error, and
// never a run.
func TestDamagedResults(t *testing.T) {
	t.Parallel()
	for _, seal := range [][]ibid.SealKey{nil, {sealKey(1)}} {
		store := new(memstore.Store)
		opts := &ibid.Options{Seal: seal}
		good := newEngine(t, store, opts)
		runs := 0
		must(t, good, order, returns("charged 3000", &runs))
		size := len(kept(t, good, store).Result)
		for i := range size {
			for _, alter := range []func([]byte) []byte{
				func(b []byte) []byte { b[i] ^= 0x10; return b },
				func(b []byte) []byte { return b[:i] },
			} {
				e := good.Over(altered{store, alter})
				data, _, err := e.Do(t.Context(), order, returns("", &runs))
				if !errors.Is(err, ibid.ErrDamaged) {
					t.Fatalf("byte %d altered, answered %q %v", i, data, err)
				}
			}
		}
		if runs != 1 {
			t.Fatalf("ran %d times", runs)
		}
	}
}

// A result moved to another key is damaged there, sealed or not.
func TestResultsDoNotMoveBetweenKeys(t *testing.T) {
	t.Parallel()
	for _, seal := range [][]ibid.SealKey{nil, {sealKey(1)}} {
		store := new(memstore.Store)
		e := newEngine(t, store, &ibid.Options{Seal: seal})
		runs := 0
		must(t, e, order, returns("mine", &runs))
		mine := kept(t, e, store).Result
		other := order
		other.Key.Scope = "other"
		must(t, e, other, returns("theirs", &runs))
		swapped := e.Over(altered{store, func([]byte) []byte { return bytes.Clone(mine) }})
		_, _, err := swapped.Do(t.Context(), other, returns("", &runs))
		wants(t, err, ibid.ErrDamaged)
	}
}

func TestNewerFingerprintFailsClosed(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	call := order
	call.Fingerprint = e.Fingerprint([]byte("1"))
	call.Fingerprint[0] = 2 // a later release wrote it
	runs := 0
	must(t, e, call, returns("", &runs))
	_, _, err := e.Do(t.Context(), order, returns("", &runs))
	wants(t, err, ibid.ErrDamaged)
}

func TestEventsTellWhatHappened(t *testing.T) {
	t.Parallel()
	var kinds []string
	e := newEngine(t, nil, &ibid.Options{Observe: []func(context.Context, ibid.Event){
		func(_ context.Context, ev ibid.Event) { kinds = append(kinds, ev.Kind.String()) },
	}})
	runs := 0
	retry := with(ibid.Policy{Takeover: ibid.Retry})
	e.Do(t.Context(), retry, fails(errCut))
	e.Do(t.Context(), retry, fails(context.Canceled))
	e.Do(t.Context(), order, returns("", &runs))
	e.Do(t.Context(), retry, returns("", &runs))
	e.Do(t.Context(), retry, returns("", &runs))
	other := order
	other.Fingerprint = e.Fingerprint(nil)
	e.Do(t.Context(), other, returns("", &runs))
	e.Do(t.Context(), ibid.Call{}, returns("", &runs))
	got := strings.Join(kinds, ", ")
	want := "claimed, released, claimed, given up, unknown, taken over, completed, replayed, mismatch, refused"
	if got != want {
		t.Fatalf("events\n%s, want\n%s", got, want)
	}
}
