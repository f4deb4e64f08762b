package redis_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/redis/rueidis"
)

// Whatever byte of a record is hit, and wherever it is cut, the answer is the
// record as it was or ErrDamaged.
func TestEveryByteHit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := libraries[0].open(t, "", server.Addr)
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	ctx := t.Context()
	keep := ibid.Keep{Retain: long, Remember: long}
	rows := []struct {
		name string
		make func(k ibid.Digest, c ibid.Claim) error
	}{
		{"a claim in progress", func(ibid.Digest, ibid.Claim) error { return nil }},
		{"a claim with steps", func(k ibid.Digest, c ibid.Claim) error {
			return s.Checkpoint(ctx, k, c.Token, []byte("step one"))
		}},
		{"a result", func(k ibid.Digest, c ibid.Claim) error {
			return s.Complete(ctx, k, c.Token, []byte("receipt"), keep)
		}},
		{"a released key", func(k ibid.Digest, c ibid.Claim) error { return s.Release(ctx, k, c.Token) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			k, c := newKey(), newClaim()
			c.Label = []byte("label")
			mustOwn(t, s, k, c)
			if err := row.make(k, c); err != nil {
				t.Fatal(err)
			}
			name := rawKey("ibid:", k)
			whole, err := raw.Do(ctx, raw.B().Get().Key(name).Build()).AsBytes()
			if err != nil {
				t.Fatal(err)
			}
			want, err := s.Look(ctx, k)
			if err != nil {
				t.Fatal(err)
			}
			unharmed := 0
			try := func(what string, at int, b []byte) {
				set := raw.B().Set().Key(name).Value(string(b)).Keepttl().Build()
				if err := raw.Do(ctx, set).Error(); err != nil {
					t.Fatal(err)
				}
				fast, err1 := s.Begin(ctx, k, conflicting())
				slow, err2 := s.Look(ctx, k)
				for _, got := range []struct {
					r   ibid.Record
					err error
				}{{fast, err1}, {slow, err2}} {
					switch {
					case errors.Is(got.err, ibid.ErrDamaged):
					case got.err != nil || !same(got.r, want):
						t.Errorf("%s byte %d: %+v, %v", what, at, got.r, got.err)
					default:
						unharmed++
					}
				}
			}
			for i := range whole {
				for _, bit := range []byte{0x01, 0x02, 0x80} {
					b := bytes.Clone(whole)
					b[i] ^= bit
					try("flipped", i, b)
				}
				try("cut before", i, whole[:i])
			}
			// One byte is no part of the record: whether somebody waits.
			if unharmed != 3*2 {
				t.Errorf("%d answers did not notice, want those of one byte", unharmed)
			}
		})
	}
}

// conflicting is a claim that an undamaged record refuses, whatever its state.
func conflicting() ibid.Claim {
	c := newClaim()
	c.MaxAttempts = 1
	return c
}

func same(a, b ibid.Record) bool {
	near := func(a, b time.Duration) bool { return a-b < time.Minute && b-a < time.Minute }
	if !near(a.Lease, b.Lease) || !near(a.Window, b.Window) {
		return false
	}
	a.Lease, a.Window, b.Lease, b.Window = 0, 0, 0, 0
	for _, f := range []*[]byte{&a.Label, &a.Steps, &a.Result, &b.Label, &b.Steps, &b.Result} {
		if len(*f) == 0 {
			*f = nil
		}
	}
	return reflect.DeepEqual(a, b)
}
