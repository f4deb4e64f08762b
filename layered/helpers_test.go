package layered_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/layered"
	"github.com/ibid-go/ibid/memstore"
)

// stub is a store that counts its calls and may be made to fail, or to wait
// before and after a verb. Abilities are those of the store within.
type stub struct {
	ibid.Store
	calls  atomic.Int64
	begins atomic.Int64
	err    atomic.Pointer[error]                        // of every verb, not applied
	before func(ctx context.Context, verb string) error // nil does nothing
	after  func(verb string)                            // nil does nothing
}

func newStub() *stub { return &stub{Store: memstore.New(nil)} }

func (s *stub) Unwrap() ibid.Store { return s.Store }

func (s *stub) fail(err error) { s.err.Store(&err) }

func (s *stub) heal() { s.err.Store(nil) }

func (s *stub) call(ctx context.Context, verb string) error {
	s.calls.Add(1)
	if err := s.err.Load(); err != nil {
		return *err
	}
	if s.before != nil {
		return s.before(ctx, verb)
	}
	return nil
}

func (s *stub) done(verb string) {
	if s.after != nil {
		s.after(verb)
	}
}

func (s *stub) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	s.begins.Add(1)
	if err := s.call(ctx, "begin"); err != nil {
		return ibid.Record{}, err
	}
	defer s.done("begin")
	return s.Store.Begin(ctx, key, claim)
}

func (s *stub) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	if err := s.call(ctx, "look"); err != nil {
		return ibid.Record{}, err
	}
	defer s.done("look")
	return s.Store.Look(ctx, key)
}

func (s *stub) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if err := s.call(ctx, "complete"); err != nil {
		return err
	}
	defer s.done("complete")
	return s.Store.Complete(ctx, key, token, result, keep)
}

func (s *stub) List(ctx context.Context, f ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	return s.Store.(ibid.Inspector).List(ctx, f, after, limit)
}

func (s *stub) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	if err := s.call(ctx, "forget"); err != nil {
		return err
	}
	defer s.done("forget")
	return s.Store.(ibid.Inspector).Forget(ctx, key, token, window)
}

var errAway = errors.New("connection refused")

func digest(name string) ibid.Digest { return sha256.Sum256([]byte(name)) }

func claim() ibid.Claim {
	return ibid.Claim{Token: ibid.NewToken(), Fingerprint: ibid.Fingerprint{1}, Lease: 30 * time.Second, Window: 24 * time.Hour}
}

// completed runs key once: it is claimed and completed with result.
func completed(t *testing.T, s ibid.Store, key ibid.Digest, result string, keep ibid.Keep) ibid.Record {
	t.Helper()
	c := claim()
	r, err := s.Begin(t.Context(), key, c)
	if err != nil || !r.OwnedBy(c.Token) {
		t.Fatalf("the claim was not granted: %+v, %v", r, err)
	}
	if err := s.Complete(t.Context(), key, c.Token, []byte(result), keep); err != nil {
		t.Fatal(err)
	}
	return r
}

var forADay = ibid.Keep{Retain: 24 * time.Hour}

// begin asks for key as a duplicate does.
func begin(t *testing.T, s ibid.Store, key ibid.Digest) ibid.Record {
	t.Helper()
	r, err := s.Begin(t.Context(), key, claim())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replays expects result.
func replays(t *testing.T, what string, s ibid.Store, key ibid.Digest, result string) {
	t.Helper()
	if r := begin(t, s, key); r.State != ibid.Completed || string(r.Result) != result {
		t.Errorf("%s: %v with %q, want completed with %q", what, r.State, r.Result, result)
	}
}

// forget forgets what stands at key, as an engine over s does.
func forget(t *testing.T, s ibid.Store, key ibid.Digest) {
	t.Helper()
	r, err := s.Look(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	i, ok := ibid.As[ibid.Inspector](s)
	if !ok {
		t.Fatal("nobody could forget")
	}
	if err := i.Forget(t.Context(), key, r.Token, time.Hour); err != nil {
		t.Fatal(err)
	}
}

// later lets the place lapse that the run of a key held in the front in vain.
func later() { time.Sleep(time.Second) }

// processes returns stores of processes that share a front and the store that
// decides.
func processes(n int, decides, front ibid.Store) []*layered.Store {
	var all []*layered.Store
	for range n {
		all = append(all, layered.New(decides, &layered.Options{Front: front}))
	}
	return all
}
