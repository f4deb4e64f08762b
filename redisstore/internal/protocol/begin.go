package protocol

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// Begin, as a policy: SET NX GET claims a key of which nothing is kept, and
// shows a result that is, in one command that the server answers without
// running a script. Only where a claim stands is there a second: it takes over,
// if the caller may, or tells how long the claim still holds.
//
// A full server refuses SET, also where it would only have shown what stands.
// Then, and only then, a result costs a second command too.

// Begin implements ibid.Store. ErrFull reports that the server has reached its
// maxmemory and that nothing is kept of key.
func (s *Store) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	name := s.key(&key)
	for {
		now, err := s.clock.now(ctx, s.conn)
		if err != nil {
			return ibid.Record{}, err
		}
		var r record.Record
		r.Begin(claim, now)
		fresh, ms := encodeClaim(&key, &r, &claim)
		fresh = appendSteps(fresh, &key, nil)
		old, found, err := s.conn.SetNew(ctx, name, text(fresh), ms)
		switch {
		case code(err) == "OOM":
			return s.beginFull(ctx, name, &key, &claim, err)
		case err != nil:
			return ibid.Record{}, err
		case !found:
			s.claims.put(claim.Token, fresh)
			return r.View(now), nil
		}
		v, err := decode(&key, old, true)
		if err != nil {
			return ibid.Record{}, err
		}
		if view, ok := v.replay(now); ok {
			return view, nil
		}
		view, ok, err := s.contend(ctx, name, &key, &claim, v)
		if ok || err != nil {
			return view, err
		}
	}
}

// sure is how far from its end a result must be, by the estimate of the
// server's clock, for nobody to ask the server whether it is over.
const sure = time.Second

// replay shows a completed record without asking the server again, if there is
// no other state that it could be in.
func (v *value) replay(now int64) (ibid.Record, bool) {
	over := v.over * int64(time.Millisecond)
	if !v.Done || v.after > 0 && over-now < int64(sure) {
		return ibid.Record{}, false
	}
	r := v.at(now, v.after)
	r.WindowEnd = max(over, now+int64(time.Millisecond))
	r.Gone = r.WindowEnd + v.after*int64(time.Millisecond)
	return r.View(now), true
}

// contend claims key where v stands, or says what stands there; false when
// nothing does any more.
func (s *Store) contend(ctx context.Context, name string, key *ibid.Digest, claim *ibid.Claim, v value) (ibid.Record, bool, error) {
	for {
		now, err := s.clock.now(ctx, s.conn)
		if err != nil {
			return ibid.Record{}, false, err
		}
		// What the server has not said yet is assumed in the caller's favour, and
		// a condition of the swap: that the claim lapsed.
		left, lapsed := v.after, int64(-1)
		if v.exact {
			now, left = v.now, v.left
		} else if !v.Held {
			left++
		}
		if v.Held && v.Token != claim.Token {
			lapsed = v.after
		}
		r := v.at(now, left)
		kept := r.Kept(now) || !v.exact
		var a answer
		switch changed := r.Begin(*claim, now); {
		case changed:
			next, ms := encodeClaim(key, &r, claim)
			carry := "1"
			if !kept {
				carry, next, lapsed = "0", appendSteps(next, key, nil), -1
			}
			a, err = s.run(ctx, swap, name, v.prefix(), string(next), strconv.FormatInt(ms, 10), strconv.FormatInt(lapsed, 10), carry)
		case v.exact:
			return r.View(now), true, nil
		default:
			a, err = s.run(ctx, look, name)
		}
		switch {
		case err != nil:
			return ibid.Record{}, false, err
		case a.applied:
			return r.View(now), true, nil
		case !a.found:
			return ibid.Record{}, false, nil
		}
		if v, err = a.read(key); err != nil {
			return ibid.Record{}, false, err
		}
	}
}

// beginFull begins where the server accepts no new key.
func (s *Store) beginFull(ctx context.Context, name string, key *ibid.Digest, claim *ibid.Claim, full error) (ibid.Record, error) {
	a, err := s.run(ctx, look, name)
	if err != nil {
		return ibid.Record{}, err
	}
	if a.found && a.left != 0 {
		v, err := a.read(key)
		if err != nil {
			return ibid.Record{}, err
		}
		view, ok, err := s.contend(ctx, name, key, claim, v)
		if ok || err != nil {
			return view, err
		}
	}
	return ibid.Record{}, fmt.Errorf("%w: %w", ibid.ErrFull, full)
}

// encodeClaim returns the head and body of the claim that r holds, and for how
// many milliseconds they are kept.
func encodeClaim(key *ibid.Digest, r *record.Record, claim *ibid.Claim) (b []byte, ms int64) {
	after := millis(claim.Window)
	b = make([]byte, 0, headLen+fixed+3*9+len(r.Label)+3*sumLen)
	b = appendHead(b, key, stateHeld, r.Token, after)
	return appendBody(b, key, r), millis(claim.Lease) + after
}
