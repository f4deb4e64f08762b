package memstore

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibid-go/ibid"
)

// DefaultMaxRecords is how many records a store holds unless told otherwise.
const DefaultMaxRecords = 1_000_000

// shards is how many locks share the keys; a power of two.
const shards = 64

// sweepPerClaim bounds the records that one Begin drops.
const sweepPerClaim = 4

// Options of a Store. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// MaxRecords bounds the keys of which something is kept. Default
	// 1,000,000; negative is no bound.
	MaxRecords int
	// MaxBytes bounds the bytes of keys and records; what indexes them comes
	// on top, about a fifth of it at results of 300 bytes. New keys are refused
	// above it; results and steps of keys already held are kept all the
	// same, so leave room for those of the claims in progress. Default and negative: no bound.
	MaxBytes int64
}

// Store is an ibid.Store in memory. Its zero value is ready to use. It is safe
// for concurrent use and must not be copied.
type Store struct {
	opts    Options
	clock   clock
	once    sync.Once
	seed    maphash.Seed
	records atomic.Int64
	bytes   atomic.Int64
	shards  [shards]shard
}

// New returns an empty store.
func New(opts *Options) *Store {
	s := new(Store)
	if opts != nil {
		s.opts = *opts
	}
	return s
}

// shard returns the shard of key and the key's hash in it. The hash is seeded:
// nobody who chooses keys can choose where they collide.
func (s *Store) shard(key *ibid.Digest) (*shard, uint32) {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	h := maphash.Bytes(s.seed, key[:])
	return &s.shards[h>>32%shards], uint32(h)
}

// Begin implements ibid.Store. ErrFull reports that nothing is kept of key and
// that there is no room for it.
func (s *Store) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	if err := ctx.Err(); err != nil {
		return ibid.Record{}, err
	}
	view, err := s.begin(&key, &claim)
	if errors.Is(err, ibid.ErrFull) && s.dropOldest() {
		view, err = s.begin(&key, &claim)
	}
	return view, err
}

func (s *Store) begin(key *ibid.Digest, claim *ibid.Claim) (ibid.Record, error) {
	sh, hash := s.shard(key)
	sh.mu.Lock()
	now := s.clock.now()
	sh.drop(s, now, sweepPerClaim)
	at := sh.find(key, hash)
	r, err := sh.load(at, key)
	if err != nil {
		sh.mu.Unlock()
		return ibid.Record{}, err
	}
	if r.Begin(*claim, now) {
		if at == none {
			err = sh.add(s, key, hash, &r)
		} else {
			sh.save(s, at, &r)
		}
	}
	sh.mu.Unlock()
	if err != nil {
		return ibid.Record{}, err
	}
	return own(r.View(now)), nil
}

// dropOldest makes room in a full store: it drops what is over at the head of
// each shard, and reports whether there was any.
func (s *Store) dropOldest() (dropped bool) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		dropped = sh.drop(s, s.clock.now(), sweepPerClaim) > 0 || dropped
		sh.mu.Unlock()
	}
	return dropped
}

// Look implements ibid.Store.
func (s *Store) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	if err := ctx.Err(); err != nil {
		return ibid.Record{}, err
	}
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	now := s.clock.now()
	at := sh.find(&key, hash)
	r, err := sh.load(at, &key)
	sh.mu.Unlock()
	if err != nil {
		return ibid.Record{}, err
	}
	return own(r.View(now)), nil
}

// own gives the caller bytes that nobody else holds: records at rest are shared
// and never changed.
func own(v ibid.Record) ibid.Record {
	v.Label = bytes.Clone(v.Label)
	v.Steps = bytes.Clone(v.Steps)
	v.Result = bytes.Clone(v.Result)
	return v
}

// Extend implements ibid.Store.
func (s *Store) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := sh.find(&key, hash)
	r, err := sh.load(at, &key)
	if err != nil {
		return err
	}
	if err := r.Extend(token, lease, s.clock.now()); err != nil {
		return err
	}
	sh.save(s, at, &r)
	if lease <= 0 {
		sh.wake(key)
	}
	return nil
}

// Complete implements ibid.Store.
func (s *Store) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := sh.find(&key, hash)
	r, err := sh.load(at, &key)
	if err != nil {
		return err
	}
	changed, err := r.Complete(token, result, keep, s.clock.now())
	if changed {
		sh.save(s, at, &r) // copies result
		sh.wake(key)
	}
	return err
}

// Release implements ibid.Store.
func (s *Store) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := sh.find(&key, hash)
	r, err := sh.load(at, &key)
	if err != nil {
		return err
	}
	if r.Release(token, s.clock.now()) {
		sh.save(s, at, &r)
		sh.wake(key)
	}
	return nil
}
