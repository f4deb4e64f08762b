package ibid_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// faults is a store whose calls can be made to fail, to hang, or to be applied
// and then fail, as with a reply that was lost.
type faults struct {
	ibid.Store

	mu    sync.Mutex
	calls map[string]int // verb → how often it was called
	total int
	// before runs instead of the verb when it returns an error; n counts all
	// calls of the store from 1 on.
	before func(ctx context.Context, verb string, n int) error
	// after runs once the verb was applied, and replaces its reply.
	after func(ctx context.Context, verb string, n int) error
}

var errCut = errors.New("connection cut")

func (f *faults) count(verb string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[verb]
}

func (f *faults) all() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

func (f *faults) do(ctx context.Context, verb string, call func() error) error {
	f.mu.Lock()
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[verb]++
	f.total++
	n, before, after := f.total, f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, verb, n); err != nil {
			return err
		}
	}
	err := call()
	if after != nil {
		if err := after(ctx, verb, n); err != nil {
			return err
		}
	}
	return err
}

func (f *faults) set(before, after func(ctx context.Context, verb string, n int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faults) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (rec ibid.Record, err error) {
	err = f.do(ctx, "begin", func() error { rec, err = f.Store.Begin(ctx, key, claim); return err })
	return rec, err
}

func (f *faults) Look(ctx context.Context, key ibid.Digest) (rec ibid.Record, err error) {
	err = f.do(ctx, "look", func() error { rec, err = f.Store.Look(ctx, key); return err })
	return rec, err
}

func (f *faults) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	return f.do(ctx, "extend", func() error { return f.Store.Extend(ctx, key, token, lease) })
}

func (f *faults) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	return f.do(ctx, "complete", func() error { return f.Store.Complete(ctx, key, token, result, keep) })
}

func (f *faults) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	return f.do(ctx, "release", func() error { return f.Store.Release(ctx, key, token) })
}

// Unwrap hides nothing: the abilities of the store inside stay reachable.
func (f *faults) Unwrap() ibid.Store { return f.Store }

// mute is a store of the five verbs and nothing else.
type mute struct{ ibid.Store }

// newEngine returns an engine over store, which is a memstore when nil.
func newEngine(t testing.TB, store ibid.Store, opts *ibid.Options) *ibid.Engine {
	t.Helper()
	if store == nil {
		store = new(memstore.Store)
	}
	e, err := ibid.New(t.Context(), store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// order is the call that tests make when nothing else matters.
var order = ibid.Call{Key: ibid.Key{Scope: "shop", ID: "order-1"}}

func with(p ibid.Policy) ibid.Call {
	c := order
	c.Policy = &p
	return c
}

// returns is work that returns result and counts its runs in n.
func returns(result string, n *int) ibid.Work {
	return func(context.Context) ([]byte, error) {
		*n++
		return []byte(result), nil
	}
}

// fails is work that returns err.
func fails(err error) ibid.Work {
	return func(context.Context) ([]byte, error) { return nil, err }
}

// must returns the result of a call that must succeed.
func must(t *testing.T, e *ibid.Engine, call ibid.Call, work ibid.Work) (string, ibid.Outcome) {
	t.Helper()
	data, out, err := e.Do(t.Context(), call, work)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	return string(data), out
}

// wants fails the test unless err is target.
func wants(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}
