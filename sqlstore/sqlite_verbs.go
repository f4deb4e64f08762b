package sqlstore

import (
	"bytes"
	"context"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// Begin implements ibid.Store. What stands is read first, and a claim that it
// rules out waits for no writer and writes nothing. The claim is decided again
// under the write lock.
func (s *SQLite) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	r, err := s.look(ctx, key)
	if err != nil {
		return ibid.Record{}, err
	}
	now := clock()
	if asked := r; !asked.Begin(claim, now) {
		return r.View(now), nil
	}
	claim.Label = bytes.Clone(claim.Label) // ctx may end before the claim is written
	var view ibid.Record
	err = s.change(ctx, key, func(r *record.Record, now int64) (bool, bool, error) {
		changed := r.Begin(claim, now)
		view = r.View(now)
		return changed, false, nil
	})
	if err != nil {
		return ibid.Record{}, err // view may be written meanwhile
	}
	return view, nil
}

// Look implements ibid.Store.
func (s *SQLite) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	r, err := s.look(ctx, key)
	if err != nil {
		return ibid.Record{}, err
	}
	return r.View(clock()), nil
}

func (s *SQLite) look(ctx context.Context, key ibid.Digest) (record.Record, error) {
	raw, err := s.record(ctx, key)
	if err != nil {
		return record.Record{}, err
	}
	return decode(key, raw)
}

// decode reads the bytes of a row; nil stands for no row.
func decode(key ibid.Digest, raw []byte) (record.Record, error) {
	if raw == nil {
		return record.Record{}, nil
	}
	return record.Decode(key, raw)
}

// Extend implements ibid.Store.
func (s *SQLite) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	return s.change(ctx, key, func(r *record.Record, now int64) (changed, frees bool, err error) {
		err = r.Extend(token, lease, now)
		return true, lease <= 0, err
	})
}

// Complete implements ibid.Store. ErrTooLarge reports a result of more bytes than
// SQLite keeps in a row, a thousand million unless it was built otherwise.
func (s *SQLite) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	result = bytes.Clone(result) // ctx may end before it is written
	return s.change(ctx, key, func(r *record.Record, now int64) (changed, frees bool, err error) {
		changed, err = r.Complete(token, result, keep, now)
		return changed, true, err
	})
}

// Release implements ibid.Store.
func (s *SQLite) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	return s.change(ctx, key, func(r *record.Record, now int64) (changed, frees bool, err error) {
		return r.Release(token, now), true, nil
	})
}

// Checkpoint implements ibid.Checkpointer.
func (s *SQLite) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, steps []byte) error {
	steps = bytes.Clone(steps) // ctx may end before they are written
	return s.change(ctx, key, func(r *record.Record, now int64) (changed, frees bool, err error) {
		err = r.Checkpoint(token, steps, now)
		return true, false, err
	})
}

// transition is a verb: what it makes of r at now, whether that changed r, and
// whether those who wait for the key may go on. It may be called
// several times, each time with the record that stands.
type transition func(r *record.Record, now int64) (changed, frees bool, err error)

// change applies t to the record at key, under the write lock.
func (s *SQLite) change(ctx context.Context, key ibid.Digest, t transition) error {
	return s.write(ctx, func(b *batch) error {
		raw, err := b.record(key)
		if err != nil {
			return err
		}
		r, err := decode(key, raw)
		if err != nil {
			return err
		}
		changed, frees, err := t(&r, clock())
		if err != nil || !changed {
			return err
		}
		if frees {
			b.freed = append(b.freed, key)
		}
		return b.put(key, &r, raw != nil)
	})
}

// put writes r in the place of the row that stands, or as a new one.
func (b *batch) put(key ibid.Digest, r *record.Record, stands bool) error {
	b.buf = r.Append(b.buf[:0], key)
	var err error
	if stands {
		_, err = b.exec(b.update, r.Gone, r.Scope[:], b.buf, key[:])
	} else {
		_, err = b.exec(b.insert, key[:], r.Gone, r.Scope[:], b.buf)
	}
	return err
}

// clock is the store's clock: that of the host, in nanoseconds since 1970 UTC.
// All who open one file are on one host. Where it is stepped, leases and windows
// end that much earlier or later; who owns a claim is decided by its token alone.
func clock() int64 { return time.Now().UnixNano() }
