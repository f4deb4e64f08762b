package ibid_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

func TestUnknownOutcomeIsResolved(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		how  ibid.Resolution
		data string
		runs int
		err  string
	}{
		{"as done", ibid.Resolution{Value: []byte("found in the bank's list")}, "found in the bank's list", 0, ""},
		{"as failed for good", ibid.Resolution{Failure: "declined"}, "", 0, "declined"},
		{"as not done", ibid.Resolution{NotDone: true}, "ran", 1, ""},
	} {
		for _, also := range []string{"", "released later"} {
			t.Run(tc.name+also, func(t *testing.T) {
				t.Parallel()
				e := newEngine(t, nil, nil)
				e.Do(t.Context(), order, fails(context.Canceled))
				if also != "" { // an attempt under Retry reported; the first is still unknown
					e.Do(t.Context(), with(ibid.Policy{Takeover: ibid.Retry}), fails(errCut))
				}
				runs := 0
				_, _, err := e.Do(t.Context(), order, returns("ran", &runs))
				wants(t, err, ibid.ErrUnknown)
				key := e.Digest(order.Key)
				op, err := e.Inspect(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				wants(t, e.Resolve(t.Context(), key, ibid.NewToken(), tc.how), ibid.ErrClaimLost)
				if err := e.Resolve(t.Context(), key, op.Record.Token, tc.how); err != nil {
					t.Fatal(err)
				}
				if also != "" && tc.how.NotDone {
					return // one attempt vanished for good; Refuse takes over nothing, Retry may
				}
				data, _, err := e.Do(t.Context(), order, returns("ran", &runs))
				if string(data) != tc.data || runs != tc.runs || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
					t.Fatalf("%q %v after %d runs", data, err, runs)
				}
			})
		}
	}
}

func TestWhatCannotBeResolved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, nil)
		key := e.Digest(order.Key)
		wants(t, e.Resolve(t.Context(), key, ibid.Token{}, ibid.Resolution{}), ibid.ErrInvalid)
		e.Do(t.Context(), order, func(ctx context.Context) ([]byte, error) {
			op, _ := e.Inspect(ctx, key)
			wants(t, e.Resolve(ctx, key, op.Record.Token, ibid.Resolution{}), ibid.ErrInProgress)
			return nil, nil
		})
		op, _ := e.Inspect(t.Context(), key)
		wants(t, e.Resolve(t.Context(), key, op.Record.Token, ibid.Resolution{NotDone: true}), ibid.ErrInvalid)
	})
}

// The owner comes back after its key was resolved: it gets what was resolved.
func TestOwnerComesBackAfterResolve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Store: new(memstore.Store)}
		e := newEngine(t, f, nil)
		f.set(func(_ context.Context, verb string, _ int) error {
			if verb == "extend" {
				return errCut
			}
			return nil
		}, nil)
		ended := make(chan string)
		go func() {
			data, _, err := e.Do(t.Context(), with(short(ibid.Refuse)), func(context.Context) ([]byte, error) {
				time.Sleep(30 * time.Second)
				return []byte("owner's"), nil
			})
			if err != nil {
				t.Errorf("owner: %v", err)
			}
			ended <- string(data)
		}()
		time.Sleep(5 * time.Second)
		op, _ := e.Inspect(t.Context(), e.Digest(order.Key))
		if err := e.Resolve(t.Context(), op.Key, op.Record.Token, ibid.Resolution{Value: []byte("resolved")}); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; got != "resolved" {
			t.Fatalf("the owner answered %q", got)
		}
	})
}

func TestForgottenKeyRunsUnderNewDerivedKeys(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	key := e.Digest(order.Key)
	var derived []string
	for range 2 {
		must(t, e, order, func(ctx context.Context) ([]byte, error) {
			derived = append(derived, ibid.DerivedKey(ctx, "charge"), ibid.DerivedKey(ctx, "receipt"))
			return nil, nil
		})
		op, err := e.Inspect(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, e.Forget(t.Context(), key, ibid.NewToken()), ibid.ErrClaimLost)
		if err := e.Forget(t.Context(), key, op.Record.Token); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, d := range derived {
		seen[d] = true
	}
	if len(seen) != 4 {
		t.Fatalf("derived keys repeat: %v", derived)
	}
	if ibid.DerivedKey(t.Context(), "charge") != "" {
		t.Fatal("a derived key outside of work")
	}
}

func TestListShowsOneScope(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	runs := 0
	for _, scope := range []string{"a", "a", "b"} {
		runs++
		must(t, e, ibid.Call{Key: ibid.Key{Scope: scope, ID: string(rune('0' + runs))}}, returns("", new(int)))
	}
	for scope, want := range map[string]int{"a": 2, "b": 1, "c": 0, "": 3} {
		ops, err := e.List(t.Context(), scope, nil, ibid.Digest{}, 10)
		if err != nil || len(ops) != want {
			t.Errorf("scope %q: %d operations, %v, want %d", scope, len(ops), err, want)
		}
	}
	ops, err := e.List(t.Context(), "", []ibid.State{ibid.Lapsed}, ibid.Digest{}, 10)
	if err != nil || len(ops) != 0 {
		t.Errorf("lapsed: %d %v", len(ops), err)
	}
	_, err = newEngine(t, mute{new(memstore.Store)}, nil).List(t.Context(), "", nil, ibid.Digest{}, 1)
	wants(t, err, ibid.ErrInvalid)
}

func TestSweepKeepsTheStoreSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		swept := 0
		e := newEngine(t, nil, &ibid.Options{Observe: []func(context.Context, ibid.Event){func(_ context.Context, ev ibid.Event) {
			if ev.Kind == ibid.EventSwept {
				swept += ev.Size
			}
		}}})
		for i := range 1200 {
			call := order
			call.Key.ID = string(rune(i))
			must(t, e, call, returns("", new(int)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Sweep(ctx, time.Hour) }()
		time.Sleep(25 * time.Hour)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || swept != 1200 {
			t.Fatalf("%v after %d records", err, swept)
		}
	})
}

// Release says nothing of a claim that was completed meanwhile; Resolve does.
func TestResolveSaysThatTheOwnerWasFaster(t *testing.T) {
	t.Parallel()
	f := &faults{Store: new(memstore.Store)}
	e := newEngine(t, f, nil)
	e.Do(t.Context(), order, fails(context.Canceled))
	op, err := e.Inspect(t.Context(), e.Digest(order.Key))
	if err != nil {
		t.Fatal(err)
	}
	f.set(func(ctx context.Context, verb string, _ int) error {
		if verb == "release" {
			return f.Store.Complete(ctx, op.Key, op.Record.Token, []byte("owner's"), ibid.Keep{Retain: time.Hour})
		}
		return nil
	}, nil)
	wants(t, e.Resolve(t.Context(), op.Key, op.Record.Token, ibid.Resolution{NotDone: true}), ibid.ErrClaimLost)
}

// Nothing is unknown of a key whose only attempts failed, nor of a forgotten one.
func TestResolveNeedsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	key := e.Digest(order.Key)
	e.Do(t.Context(), order, fails(errCut))
	op, _ := e.Inspect(t.Context(), key)
	wants(t, e.Resolve(t.Context(), key, op.Record.Token, ibid.Resolution{}), ibid.ErrInvalid)
	if err := e.Forget(t.Context(), key, op.Record.Token); err != nil {
		t.Fatal(err)
	}
	wants(t, e.Resolve(t.Context(), key, ibid.Token{}, ibid.Resolution{}), ibid.ErrInvalid)
	runs := 0
	must(t, e, order, returns("", &runs))
	if runs != 1 {
		t.Fatal("the key was not free")
	}
}
