package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/storetest"
)

func target() storetest.Target {
	return storetest.Target{
		Open: func(context.Context) (ibid.Store, func() error, error) { return memstore.New(nil), nil, nil },
		Second: func(_ context.Context, s ibid.Store) (ibid.Store, func() error, error) {
			return s, nil, nil // one process, one handle
		},
		Corrupt: func(_ context.Context, s ibid.Store, key ibid.Digest, change func([]byte) []byte) error {
			s.(*memstore.Store).Corrupt(key, change)
			return nil
		},
		Tick:       time.Second,
		Resolution: 1,
		FakeClock:  true,
		Parallel:   true,
	}
}

func TestContract(t *testing.T) {
	storetest.RunIn(t, target(), synctest.Test)
}
