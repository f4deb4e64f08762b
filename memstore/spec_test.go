package memstore_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
	"github.com/ibid-go/ibid/memstore"
)

// The store answers as a map of the specification's records does, over any run
// of verbs, while records come, go and are dropped.
func TestStoreIsTheSpecification(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			s := memstore.New(nil)
			spec := map[ibid.Digest]*record.Record{}
			tokens := make([]ibid.Token, 40)
			for i := range tokens {
				tokens[i] = ibid.NewToken()
			}
			ctx := t.Context()
			for step := range 20_000 {
				key := digest(1 + rnd.IntN(1000)) // List begins after a key: the zero key comes before all
				token := tokens[rnd.IntN(len(tokens))]
				now := time.Now().UnixNano()
				r := spec[key]
				if r == nil {
					r = &record.Record{}
				}
				same := func(verb string, got, want error) {
					if !errors.Is(got, want) || (want == nil) != (got == nil) {
						t.Fatalf("seed %d, step %d: %s: %v, want %v", seed, step, verb, got, want)
					}
				}
				switch rnd.IntN(10) {
				case 0, 1, 2:
					c := ibid.Claim{
						Token: token, Fingerprint: ibid.Fingerprint{byte(rnd.IntN(2))}, Label: []byte{byte(step)},
						Lease: time.Duration(1 + rnd.IntN(100)), Window: time.Duration(1 + rnd.IntN(300)), MaxTakeovers: rnd.IntN(4) - 1,
					}
					got, err := s.Begin(ctx, key, c)
					same("Begin", err, nil)
					r.Begin(c, now)
					spec[key] = r
					want := r.View(now)
					if want.OwnedBy(token) { // a dropped record's fence is not the map's
						if got.Fence < want.Fence {
							t.Fatalf("seed %d, step %d: fence %d, want at least %d", seed, step, got.Fence, want.Fence)
						}
						r.Fence = got.Fence
						want.Fence = got.Fence
					}
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, step %d: Begin %+v, want %+v", seed, step, got, want)
					}
				case 3:
					lease := time.Duration(rnd.IntN(120) - 20)
					same("Extend", s.Extend(ctx, key, token, lease), r.Extend(token, lease, now))
				case 4:
					keep := ibid.Keep{Retain: time.Duration(1 + rnd.IntN(200)), Remember: time.Duration(rnd.IntN(100))}
					result := bytes.Repeat([]byte{byte(step)}, rnd.IntN(100))
					_, want := r.Complete(token, result, keep, now)
					same("Complete", s.Complete(ctx, key, token, result, keep), want)
				case 5:
					r.Release(token, now)
					same("Release", s.Release(ctx, key, token), nil)
				case 6:
					same("Forget", s.Forget(ctx, key, token, 50), r.Forget(token, 50, now))
				case 7:
					same("Checkpoint", s.Checkpoint(ctx, key, token, []byte{1}), r.Checkpoint(token, []byte{1}, now))
				case 8:
					if rnd.IntN(50) == 0 {
						if _, err := s.Sweep(ctx, rnd.IntN(100)); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Duration(rnd.IntN(20)))
				}
				got, err := s.Look(ctx, key)
				same("Look", err, nil)
				if want := r.View(time.Now().UnixNano()); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, step %d: Look %+v, want %+v", seed, step, got, want)
				}
			}
			listed, err := s.List(ctx, ibid.Filter{}, ibid.Digest{}, 2000)
			if err != nil {
				t.Fatal(err)
			}
			kept := 0
			for key, r := range spec {
				if r.Kept(time.Now().UnixNano()) {
					kept++
					if !slices.ContainsFunc(listed, func(e ibid.Entry) bool { return e.Key == key }) {
						t.Fatalf("seed %d: %v is not listed", seed, key)
					}
				}
			}
			if len(listed) != kept {
				t.Fatalf("seed %d: %d records listed, want %d", seed, len(listed), kept)
			}
		})
	}
}
