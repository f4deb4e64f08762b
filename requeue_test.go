package ibid_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

func TestRequeueRunsAgainUnderTheSameDerivedKey(t *testing.T) {
	t.Parallel()
	e, err := ibid.New(t.Context(), new(memstore.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	call := ibid.Call{Key: ibid.Key{Scope: "s", ID: "1"}, Fingerprint: e.Fingerprint([]byte("a"))}
	var keys []string
	do := func(end error) error {
		_, _, err := e.Do(t.Context(), call, func(ctx context.Context) ([]byte, error) {
			keys = append(keys, ibid.DerivedKey(ctx, "x"))
			if end != nil {
				ibid.EffectStarted(ctx)
			}
			return nil, end
		})
		return err
	}
	token := func() ibid.Token {
		op, err := e.Inspect(t.Context(), e.Digest(call.Key))
		if err != nil {
			t.Fatal(err)
		}
		return op.Record.Token
	}
	again := func(what string, requeue func(context.Context, ibid.Digest, ibid.Token) error, same bool) {
		t.Helper()
		if err := requeue(t.Context(), e.Digest(call.Key), token()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n := len(keys)
		if err := do(nil); err != nil || len(keys) != n+1 {
			t.Fatalf("%s: %v, %d runs, want %d", what, err, len(keys), n+1)
		}
		if (keys[n] == keys[n-1]) != same {
			t.Errorf("%s: derived keys %v", what, keys)
		}
	}
	if err := do(nil); err != nil {
		t.Fatal(err)
	}
	again("a completed key", e.Requeue, true)
	again("a forgotten key", e.Forget, false)
	again("a completed key of the next generation", e.Requeue, true)

	// Only the same request may run again under the same derived keys.
	if err := e.Requeue(t.Context(), e.Digest(call.Key), token()); err != nil {
		t.Fatal(err)
	}
	call.Fingerprint = e.Fingerprint([]byte("b"))
	if err := do(nil); !errors.Is(err, ibid.ErrMismatch) {
		t.Errorf("another request: %v", err)
	}
	call.Fingerprint = e.Fingerprint([]byte("a"))
	if err := do(errors.New("cut")); !errors.Is(err, ibid.ErrUnknown) {
		t.Fatal(err)
	}
	again("an unknown key", e.Requeue, true)

	if err := e.Requeue(t.Context(), e.Digest(call.Key), ibid.NewToken()); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("another token: %v", err)
	}
	if err := e.Requeue(t.Context(), ibid.Digest{1}, ibid.Token{}); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("an absent key: %v", err)
	}
	if err := e.Requeue(t.Context(), e.Digest(call.Key), token()); err != nil {
		t.Fatal(err)
	}
	_, _, err = e.Do(t.Context(), call, func(context.Context) ([]byte, error) {
		err := e.Requeue(t.Context(), e.Digest(call.Key), token())
		if !errors.Is(err, ibid.ErrInProgress) {
			t.Errorf("in progress: %v", err)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}
