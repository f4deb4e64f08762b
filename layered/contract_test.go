package layered_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/layered"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/storetest"
)

// warm reads every result as soon as it is recorded, so that whatever a case
// asks for later is answered from a copy.
type warm struct{ *layered.Store }

func (w warm) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	err := w.Store.Complete(ctx, key, token, result, keep)
	if err == nil {
		_, err = w.Begin(ctx, key, ibid.Claim{Token: ibid.NewToken(), Lease: time.Second, Window: time.Minute, MaxAttempts: 1})
	}
	return err
}

// A cache changes nothing of the contract within one process: what is forgotten
// here is forgotten here at once, and no copy outlives its window. What it
// changes between processes is in TestForgotten.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		open func() ibid.Store
	}{
		{"in memory", func() ibid.Store { return warm{layered.New(memstore.New(nil), nil)} }},
		{"with a front", func() ibid.Store {
			return warm{layered.New(memstore.New(nil), &layered.Options{Front: memstore.New(nil)})}
		}},
		{"with a front alone", func() ibid.Store {
			return warm{layered.New(memstore.New(nil), &layered.Options{Front: memstore.New(nil), MaxRecords: -1})}
		}},
		{"a layer on a layer", func() ibid.Store {
			return warm{layered.New(layered.New(memstore.New(nil), &layered.Options{Front: memstore.New(nil)}), nil)}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			storetest.RunIn(t, storetest.Target{
				Open: func(context.Context) (ibid.Store, func() error, error) { return row.open(), nil, nil },
				Second: func(_ context.Context, s ibid.Store) (ibid.Store, func() error, error) {
					return s, nil, nil // one process, one store
				},
				Tick: time.Second, Resolution: 1, FakeClock: true, Parallel: true,
			}, synctest.Test)
		})
	}
}
