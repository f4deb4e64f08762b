package layered_test

import (
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/layered"
	"github.com/ibid-go/ibid/memstore"
)

// BenchmarkReplay is a Begin that is answered from memory, with a result of 300
// bytes, by many callers at once.
func BenchmarkReplay(b *testing.B) {
	s := layered.New(memstore.New(nil), nil)
	k, c := digest("k"), claim()
	if _, err := s.Begin(b.Context(), k, c); err != nil {
		b.Fatal(err)
	}
	if err := s.Complete(b.Context(), k, c.Token, make([]byte, 300), ibid.Keep{Retain: 24 * time.Hour}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r, err := s.Begin(b.Context(), k, c); err != nil || r.State != ibid.Completed {
				b.Error(r.State, err)
				return
			}
		}
	})
}
