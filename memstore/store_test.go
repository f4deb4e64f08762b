package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

var (
	_ ibid.Store        = (*memstore.Store)(nil)
	_ ibid.Notifier     = (*memstore.Store)(nil)
	_ ibid.Sweeper      = (*memstore.Store)(nil)
	_ ibid.Inspector    = (*memstore.Store)(nil)
	_ ibid.Checkpointer = (*memstore.Store)(nil)
	_ ibid.Describer    = (*memstore.Store)(nil)
)

func TestZeroValueIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s memstore.Store
		token := ibid.NewToken()
		r, err := s.Begin(t.Context(), ibid.Digest{1}, ibid.Claim{Token: token, Lease: time.Second, Window: time.Minute})
		if err != nil || !r.OwnedBy(token) {
			t.Fatalf("first claim: %+v, %v", r, err)
		}
		if err := s.Complete(t.Context(), ibid.Digest{1}, token, []byte("done"), ibid.Keep{Retain: time.Minute}); err != nil {
			t.Fatal(err)
		}
		r, err = s.Begin(t.Context(), ibid.Digest{1}, ibid.Claim{Token: ibid.NewToken(), Lease: time.Second, Window: time.Minute})
		if err != nil || r.State != ibid.Completed || string(r.Result) != "done" {
			t.Fatalf("replay: %+v, %v", r, err)
		}
		time.Sleep(time.Minute)
		if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
			t.Fatalf("sweep: %d, %v", n, err)
		}
	})
}
