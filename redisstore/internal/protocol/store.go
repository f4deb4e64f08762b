package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/ibid-go/ibid"
)

// DefaultPrefix begins every key unless told otherwise.
const DefaultPrefix = "ibid:"

// Options of a Store. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// Prefix begins every key and names the channel that wakes waiters.
	// Default "ibid:". Two stores on one server share their records exactly
	// when they share the prefix. It must not contain braces: what a cluster
	// places a key by is its digest.
	Prefix string
}

// Store is an ibid.Store on a Redis or Valkey server. It is safe for concurrent
// use.
type Store struct {
	conn    Conn
	prefix  string
	channel string
	clock   *clock
	watches watches
	claims  claims
}

// New returns a store on conn.
func New(conn Conn, opts *Options) (*Store, error) {
	prefix := DefaultPrefix
	if opts != nil && opts.Prefix != "" {
		prefix = opts.Prefix
	}
	if strings.ContainsAny(prefix, "{}") {
		return nil, fmt.Errorf("%w: Prefix %q contains braces", ibid.ErrInvalid, prefix)
	}
	return &Store{conn: conn, prefix: prefix, channel: prefix + "wake", clock: newClock()}, nil
}

func (s *Store) key(key *ibid.Digest) string {
	b := make([]byte, 0, len(s.prefix)+1+len(key)+1)
	b = append(append(b, s.prefix...), '{')
	return text(append(append(b, key[:]...), '}'))
}

// What PTTL says of a key that is not there, and of one without an expiry.
const (
	noKey    = -2
	noExpiry = -1
)

// answer is what a script says.
type answer struct {
	applied bool
	found   bool   // something stands; set unless applied
	left    int64  // milliseconds that the key has left; set unless applied
	now     int64  // nanoseconds of the server's clock; set unless applied
	old     []byte // what stood there before, or stands there; nil: what the caller wrote
}

// run runs a script. A server that was restarted, or has just become a primary,
// does not know it: it is sent again, whole. It did not run before that.
func (s *Store) run(ctx context.Context, sc *Script, key string, args ...string) (answer, error) {
	asked := s.clock.since()
	old, shown, err := s.conn.Run(ctx, sc, false, key, args)
	if code(err) == "NOSCRIPT" {
		old, shown, err = s.conn.Run(ctx, sc, true, key, args)
	}
	switch {
	case err != nil:
		return answer{}, err
	case shown == nil:
		return answer{applied: true, old: old}, nil
	}
	micros := shown.Seconds*1_000_000 + shown.Micros
	if micros > 0 {
		s.clock.learn(asked, micros)
	}
	return answer{found: shown.Left != noKey, left: shown.Left, now: micros * int64(time.Microsecond), old: old}, nil
}

// code returns the code that begins an error of the server: "OOM".
func code(err error) string {
	if err == nil {
		return ""
	}
	first, _, _ := strings.Cut(err.Error(), " ")
	return first
}

// read decodes what an answer shows, with its times. Nothing that stands is a
// record of which nothing is left.
func (a *answer) read(key *ibid.Digest) (v value, err error) {
	if a.found {
		if a.left == noExpiry {
			return v, fmt.Errorf("%w: record without an expiry", ibid.ErrDamaged)
		}
		if v, err = decode(key, a.old, true); err != nil {
			return v, err
		}
	}
	v.exact, v.left, v.now = true, max(a.left, 0), a.now
	return v, nil
}

// Look implements ibid.Store.
func (s *Store) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	a, err := s.run(ctx, look, s.key(&key))
	if err != nil {
		return ibid.Record{}, err
	}
	v, err := a.read(&key)
	if err != nil {
		return ibid.Record{}, err
	}
	r := v.at(v.now, v.left)
	return r.View(v.now), nil
}

// text is b, which must not be changed any more, as a string.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// claimed begins the version and state of a claim.
const claimed = string(rune(version)) + string(rune(stateHeld))

// held is the version, state and token of a claim, as scripts compare them.
func held(token ibid.Token) string { return claimed + string(token[:]) }

// Extend implements ibid.Store.
func (s *Store) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	a, err := s.run(ctx, extend, s.key(&key), held(token), strconv.FormatInt(millis(lease), 10))
	_, err = s.stood(&key, a, err)
	return err
}

// Complete implements ibid.Store.
func (s *Store) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	now, err := s.clock.now(ctx, s.conn)
	if err != nil {
		return err
	}
	retain, remember := millis(keep.Retain), millis(keep.Remember)
	over := now/int64(time.Millisecond) + retain
	claim := s.claims.take(token)
	b := make([]byte, 0, max(len(claim), headLen)+sumLen+overLen+len(result))
	b = appendHead(b, &key, stateDone, token, remember)
	known := held(token)
	if claim != nil {
		known = text(claim)
		b = append(b, claim[headLen:]...)
	}
	at := len(b) + 1
	b = appendResult(b, &key, over, result)
	a, err := s.run(ctx, complete, s.key(&key), known, text(b), strconv.FormatInt(retain+remember, 10), strconv.Itoa(at))
	if err == nil && a.applied && a.old == nil {
		return nil // the claim stood as this process wrote it
	}
	v, err := s.stood(&key, a, err)
	if errors.Is(err, ibid.ErrClaimLost) {
		if r := v.at(v.now, v.left); r.State(v.now) == ibid.Completed && r.Token == token && bytes.Equal(r.Result, result) {
			return nil // its first reply was lost
		}
	}
	return err
}

// Release implements ibid.Store.
func (s *Store) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	s.claims.take(token)
	a, err := s.run(ctx, release, s.key(&key), held(token),
		string(appendHead(make([]byte, 0, headLen), &key, stateReleased, token, 0)))
	if _, err = s.stood(&key, a, err); errors.Is(err, ibid.ErrClaimLost) {
		return nil
	}
	return err
}

// Checkpoint implements ibid.Checkpointer.
func (s *Store) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, steps []byte) error {
	a, err := s.run(ctx, checkpoint, s.key(&key), held(token), string(appendSteps(nil, &key, steps)))
	_, err = s.stood(&key, a, err)
	return err
}

// stood says what became of a write under a token: the record that it changed
// was whole, or the one that it did not change shows why.
func (s *Store) stood(key *ibid.Digest, a answer, err error) (v value, _ error) {
	switch {
	case err != nil:
		return v, err
	case a.applied:
		return decode(key, a.old, true)
	}
	if v, err = a.read(key); err == nil {
		err = ibid.ErrClaimLost
	}
	return v, err
}
