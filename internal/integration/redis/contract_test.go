package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/internal/outside"
	"github.com/ibid-go/ibid/storetest"
	"github.com/redis/rueidis"
)

// IBID_TEST_REDIS names a server to be used instead of a private one:
// "127.0.0.1:6379". Keys are left there until they expire.
func TestContract(t *testing.T) {
	t.Parallel()
	addr := outside.Address("REDIS")
	if addr == "" {
		addr = redistest.Start(t).Addr
	}
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			contract(t, lib, addr)
		})
	}
}

func contract(t *testing.T, lib library, addr string) {
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	own := ibid.NewToken()
	var n atomic.Int64
	var prefixes sync.Map // store → its prefix
	open := func(prefix string) (ibid.Store, func() error, error) {
		s := lib.open(t, prefix, addr)
		prefixes.Store(s, prefix)
		return s, nil, nil
	}
	storetest.Run(t, storetest.Target{
		Open: func(context.Context) (ibid.Store, func() error, error) {
			return open(fmt.Sprintf("ibid-test-%s-%d:", own, n.Add(1)))
		},
		Second: func(_ context.Context, s ibid.Store) (ibid.Store, func() error, error) {
			prefix, _ := prefixes.Load(s)
			return open(prefix.(string))
		},
		Corrupt: func(ctx context.Context, s ibid.Store, key ibid.Digest, change func([]byte) []byte) error {
			prefix, _ := prefixes.Load(s)
			name := rawKey(prefix.(string), key)
			b, err := raw.Do(ctx, raw.B().Get().Key(name).Build()).AsBytes()
			if err != nil {
				return err
			}
			return raw.Do(ctx, raw.B().Set().Key(name).Value(string(change(b))).Keepttl().Build()).Error()
		},
		Tick:       100 * time.Millisecond,
		Resolution: time.Millisecond,
		Parallel:   true,
	})
}
