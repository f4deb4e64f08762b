package layered

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ibid-go/ibid"
)

// Options of a Store. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// FrontTTL bounds the life of a copy, wherever it is, and so for how long
	// after a Forget other processes may replay what was forgotten. Default 60 s;
	// negative keeps no copies at all.
	FrontTTL time.Duration
	// MaxRecords bounds the copies in memory; the one that was used longest ago
	// goes first. Default 10,000; negative keeps none in memory.
	MaxRecords int
	// MaxBytes bounds the bytes of the copies in memory. Default 64 MiB;
	// negative is no bound.
	MaxBytes int64
	// MaxCopy is the size in bytes above which a result is not copied. Default
	// 256 KiB; negative is no bound.
	MaxCopy int
	// Front is shared with other processes, which use the same one in front of
	// the same store that decides. Default nil: there is none.
	Front ibid.Store
	// Name tells apart stores that share a front: one that decides over other
	// records needs another name, or another part of the front (redisstore's
	// prefix). Default "".
	Name string
	// FrontTimeout bounds one call of the front. Default 50 ms; negative is no
	// bound but the caller's.
	FrontTimeout time.Duration
	// FrontPause is how long the front is left alone after calls of it failed:
	// a 50th of it after the first, twice as long after each further one.
	// Default 5 s; negative asks it each time.
	FrontPause time.Duration
}

// Defaults of Options.
const (
	DefaultFrontTTL     = time.Minute
	DefaultMaxRecords   = 10_000
	DefaultMaxBytes     = 64 << 20
	DefaultMaxCopy      = 256 << 10
	DefaultFrontTimeout = 50 * time.Millisecond
	DefaultFrontPause   = 5 * time.Second
)

func (o *Options) complete() Options {
	var out Options
	if o != nil {
		out = *o
	}
	pick(&out.FrontTTL, DefaultFrontTTL)
	pick(&out.MaxRecords, DefaultMaxRecords)
	pick(&out.MaxBytes, DefaultMaxBytes)
	pick(&out.MaxCopy, DefaultMaxCopy)
	pick(&out.FrontTimeout, DefaultFrontTimeout)
	pick(&out.FrontPause, DefaultFrontPause)
	return out
}

func pick[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Store is an ibid.Store that replays copies of what another store decided. It
// is safe for concurrent use. Its abilities are those of the other store, found
// with ibid.As.
type Store struct {
	decides ibid.Store
	opts    Options
	memory  memory
	front   *front // nil without one
	counts  counters
}

// New returns a store in front of decides. It panics if decides is nil, and asks
// neither store anything. Both stay the caller's to close.
func New(decides ibid.Store, opts *Options) *Store {
	if decides == nil {
		panic("layered: the store that decides is nil")
	}
	s := &Store{decides: decides, opts: opts.complete()}
	if s.opts.FrontTTL < 0 {
		s.opts.FrontTTL, s.opts.MaxRecords, s.opts.Front = 0, -1, nil
	}
	s.memory.init(s.opts.MaxRecords, s.opts.MaxBytes)
	if s.opts.Front != nil {
		s.front = newFront(&s.opts, &s.counts)
	}
	return s
}

// ForgottenWithin returns how long after a Forget has returned other processes
// may still replay what was forgotten. In this process it is effective at once.
func (s *Store) ForgottenWithin() time.Duration { return s.opts.FrontTTL }

// Counts are how often Begin was answered from where, since New.
type Counts struct {
	// Memory and Front count replays of a copy, Decided the answers of the
	// store that decides.
	Memory, Front, Decided int64
	// FrontFailed counts calls of the front that failed or took too long.
	FrontFailed int64
}

type counters struct{ memory, front, decided, failed atomic.Int64 }

// Counts returns the counts so far.
func (s *Store) Counts() Counts {
	c := &s.counts
	return Counts{Memory: c.memory.Load(), Front: c.front.Load(), Decided: c.decided.Load(), FrontFailed: c.failed.Load()}
}

// Begin implements ibid.Store. A completed record may be answered from a copy,
// whatever the claim asks for: it carries its fingerprint, as the record does.
func (s *Store) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	if err := ctx.Err(); err != nil {
		return ibid.Record{}, err
	}
	if rec, ok := s.memory.get(key, time.Now()); ok {
		s.counts.memory.Add(1)
		return rec, nil
	}
	seen := s.memory.reading(key)
	var place ibid.Token // in the front; zero without one
	if s.front != nil {
		asked := time.Now()
		c, token, ok := s.front.begin(ctx, key)
		if ok {
			s.counts.front.Add(1)
			s.memory.put(key, seen, c, asked)
			return c.view(time.Since(asked)), nil
		}
		place = token
	}
	asked := time.Now() // what was read was so at this moment, or later
	rec, err := s.decides.Begin(ctx, key, claim)
	if err != nil {
		return rec, err
	}
	s.counts.decided.Add(1)
	s.learn(ctx, key, seen, place, rec, asked)
	return rec, nil
}

// Look implements ibid.Store. It asks the store that decides: operators and
// those who wait want to know what is there now.
func (s *Store) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	seen := s.memory.reading(key)
	asked := time.Now()
	rec, err := s.decides.Look(ctx, key)
	if err == nil {
		s.learn(ctx, key, seen, ibid.Token{}, rec, asked)
	}
	return rec, err
}

// learn copies what the store that decides was seen to hold, if it is completed,
// and drops the copy of what is not.
func (s *Store) learn(ctx context.Context, key ibid.Digest, seen uint64, place ibid.Token, rec ibid.Record, asked time.Time) {
	if rec.State != ibid.Completed {
		s.memory.drop(key)
		return
	}
	if s.opts.MaxCopy > 0 && len(rec.Result) > s.opts.MaxCopy {
		return
	}
	s.memory.put(key, seen, copied{rec: rec, ends: min(rec.Window, s.opts.FrontTTL)}, asked)
	if !place.IsZero() {
		s.front.fill(ctx, key, place, rec, asked)
	}
}

// Extend implements ibid.Store.
func (s *Store) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	defer s.memory.drop(key)
	return s.decides.Extend(ctx, key, token, lease)
}

// Complete implements ibid.Store. The copy is made when the result is read.
func (s *Store) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	defer s.memory.drop(key)
	return s.decides.Complete(ctx, key, token, result, keep)
}

// Release implements ibid.Store.
func (s *Store) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	defer s.memory.drop(key)
	return s.decides.Release(ctx, key, token)
}

// Unwrap returns the store that decides, so that ibid.As finds its abilities;
// one that can forget drops the copies, too.
func (s *Store) Unwrap() ibid.Store {
	if i, ok := ibid.As[ibid.Inspector](s.decides); ok {
		return &inspected{Store: s.decides, inspector: i, layers: s}
	}
	return s.decides
}

// inspected is the store that decides, with a Forget that drops the copies.
type inspected struct {
	ibid.Store
	inspector ibid.Inspector
	layers    *Store
}

// Unwrap returns the store that decides.
func (i *inspected) Unwrap() ibid.Store { return i.Store }

// List implements ibid.Inspector.
func (i *inspected) List(ctx context.Context, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	return i.inspector.List(ctx, filter, after, limit)
}

// Forget implements ibid.Inspector. The copies are dropped after the record, and
// also when it is not known whether the record was.
func (i *inspected) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	err := i.inspector.Forget(ctx, key, token, window)
	i.layers.memory.drop(key)
	if i.layers.front != nil {
		i.layers.front.forget(ctx, key)
	}
	return err
}
