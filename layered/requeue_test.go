package layered_test

import (
	"context"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/layered"
)

func TestARequeuedKeyIsNotReplayedFromACopy(t *testing.T) {
	t.Parallel()
	engine, err := ibid.New(t.Context(), layered.New(newStub(), &layered.Options{Front: newStub()}), nil)
	if err != nil {
		t.Fatal(err)
	}
	call := ibid.Call{Key: ibid.Key{Scope: "alice", ID: "k"}}
	runs := 0
	do := func() {
		t.Helper()
		if _, _, err := engine.Do(t.Context(), call, func(context.Context) ([]byte, error) { runs++; return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	do()
	do() // a copy is made
	op, err := engine.Inspect(t.Context(), engine.Digest(call.Key))
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Requeue(t.Context(), op.Key, op.Record.Token); err != nil {
		t.Fatal(err)
	}
	do()
	if runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}
