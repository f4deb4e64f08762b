// Package record is the store contract as one sequential program: what each
// verb makes of the record that stands, at a given moment of the store's
// clock. A store that can read a record, and write another in its place only if
// nobody wrote meanwhile, needs nothing else to be right.
//
// It also holds the bytes of a record at rest (Append and Decode).
package record

import (
	"bytes"
	"time"

	"github.com/ibid-go/ibid"
)

// Record is a record at rest. Times are nanoseconds of the store's clock.
type Record struct {
	Held        bool // a claim stands, in progress or lapsed
	Done        bool // completed; Held and Done exclude each other, neither is released
	Token       ibid.Token
	Fence       int64
	Attempt     int
	Vanished    int
	Generation  int
	Fingerprint ibid.Fingerprint
	Scope       ibid.Digest
	Label       []byte
	LeaseEnd    int64 // of a held claim
	WindowEnd   int64 // of a completed record: the result is replayed until then
	Gone        int64 // nothing is kept from then on; equals WindowEnd unless remembered
	Result      []byte
	Steps       []byte
}

// Kept reports whether anything is kept of r at now. The moment Gone itself is
// over.
func (r *Record) Kept(now int64) bool { return r.Gone > now }

// State returns the state of r at now.
func (r *Record) State(now int64) ibid.State {
	switch {
	case !r.Kept(now):
		return ibid.Absent
	case r.Done && r.WindowEnd > now:
		return ibid.Completed
	case r.Done:
		return ibid.Expired
	case r.Held && r.LeaseEnd > now:
		return ibid.InProgress
	case r.Held:
		return ibid.Lapsed
	}
	return ibid.Released
}

// View returns r as a caller sees it at now. Its bytes are r's own.
func (r *Record) View(now int64) ibid.Record {
	s := r.State(now)
	if s == ibid.Absent {
		return ibid.Record{}
	}
	v := ibid.Record{
		State: s, Token: r.Token, Fence: r.Fence, Attempt: r.Attempt, Vanished: r.Vanished,
		Generation: r.Generation, Fingerprint: r.Fingerprint, Scope: r.Scope, Label: r.Label,
		Window: time.Duration(r.Gone - now), Steps: r.Steps,
	}
	switch s {
	case ibid.InProgress:
		v.Lease = time.Duration(r.LeaseEnd - now)
	case ibid.Completed:
		v.Window = time.Duration(r.WindowEnd - now)
		v.Result = r.Result
	}
	return v
}

// Begin claims r for c at now, and reports whether it changed r. The claim is
// granted exactly when r.Held and r.Token == c.Token afterwards and r changed.
//
// A claim never stands on more vanished attempts than c.MaxTakeovers.
func (r *Record) Begin(c ibid.Claim, now int64) (changed bool) {
	state := r.State(now)
	switch state {
	case ibid.Completed, ibid.Expired:
		return false
	case ibid.InProgress, ibid.Lapsed:
		if r.Token == c.Token { // its first reply was lost
			r.hold(c, now)
			return true
		}
	}
	next := Record{Fence: r.Fence}
	if state != ibid.Absent {
		next = *r
	}
	if state == ibid.Lapsed {
		next.Vanished++
	}
	switch {
	case state == ibid.InProgress,
		state == ibid.Lapsed && r.Fingerprint != c.Fingerprint,
		r.Fingerprint != c.Fingerprint && r.Fingerprint != (ibid.Fingerprint{}) && state == ibid.Released,
		c.MaxTakeovers >= 0 && next.Vanished > c.MaxTakeovers,
		c.MaxAttempts > 0 && next.Attempt >= c.MaxAttempts:
		return false
	}
	next.Held = true
	next.Token = c.Token
	next.Fence = max(r.Fence+1, now/int64(time.Microsecond))
	next.Attempt++
	next.Fingerprint = c.Fingerprint
	next.Scope = c.Scope
	next.Label = bytes.Clone(c.Label)
	next.hold(c, now)
	*r = next
	return true
}

func (r *Record) hold(c ibid.Claim, now int64) {
	r.LeaseEnd = now + int64(c.Lease)
	r.Gone = r.LeaseEnd + int64(c.Window)
	r.WindowEnd = r.Gone
}

// Extend lets the claim of token hold until now + lease. The record outlives
// the new end of its lease by as much as it would have outlived the old one.
func (r *Record) Extend(token ibid.Token, lease time.Duration, now int64) error {
	if !r.heldBy(token, now) {
		return ibid.ErrClaimLost
	}
	window := r.Gone - r.LeaseEnd
	r.LeaseEnd = now + int64(max(lease, 0))
	r.Gone = r.LeaseEnd + window
	r.WindowEnd = r.Gone
	return nil
}

// Complete records result, which must not be changed afterwards, and reports
// whether it changed r.
func (r *Record) Complete(token ibid.Token, result []byte, keep ibid.Keep, now int64) (changed bool, err error) {
	if r.Kept(now) && r.Done && r.Token == token && bytes.Equal(r.Result, result) && r.WindowEnd > now {
		return false, nil
	}
	if !r.heldBy(token, now) {
		return false, ibid.ErrClaimLost
	}
	r.Held, r.Done = false, true
	r.Result = result
	r.LeaseEnd = 0
	r.WindowEnd = now + int64(keep.Retain)
	r.Gone = r.WindowEnd + int64(max(keep.Remember, 0))
	return true, nil
}

// Mark is Begin and Complete in one, and reports whether it changed r. It was
// granted exactly when it changed r.
func (r *Record) Mark(m ibid.Mark, now int64) (changed bool, err error) {
	if !r.Begin(m.Claim, now) {
		return false, nil
	}
	return r.Complete(m.Claim.Token, m.Result, m.Keep, now)
}

// Release frees the claim of token, and reports whether it changed r.
func (r *Record) Release(token ibid.Token, now int64) (changed bool) {
	if !r.heldBy(token, now) {
		return false
	}
	r.Held = false
	r.LeaseEnd = 0
	if r.Vanished == 0 && len(r.Steps) == 0 {
		r.Fingerprint = ibid.Fingerprint{}
	}
	return true
}

// Checkpoint replaces the step state under the claim of token.
func (r *Record) Checkpoint(token ibid.Token, steps []byte, now int64) error {
	if !r.heldBy(token, now) {
		return ibid.ErrClaimLost
	}
	r.Steps = bytes.Clone(steps)
	return nil
}

// Forget makes r a released record of the next generation, of which nothing else is
// left, and reports ErrClaimLost when token is not that of r.
func (r *Record) Forget(token ibid.Token, window time.Duration, now int64) error {
	if !r.Kept(now) || r.Token != token {
		return ibid.ErrClaimLost
	}
	*r = Record{Fence: r.Fence, Generation: r.Generation + 1, Scope: r.Scope, Gone: now + int64(window)}
	r.WindowEnd = r.Gone
	return nil
}

// Requeue makes r a released record of the same generation that only the same
// request may claim, and reports ErrClaimLost when token is not that of r, or its claim
// holds.
func (r *Record) Requeue(token ibid.Token, window time.Duration, now int64) error {
	if !r.Kept(now) || r.Token != token || r.State(now) == ibid.InProgress {
		return ibid.ErrClaimLost
	}
	*r = Record{
		Token: r.Token, Fence: r.Fence, Generation: r.Generation, Fingerprint: r.Fingerprint,
		Scope: r.Scope, Label: r.Label, Gone: now + int64(window),
	}
	r.WindowEnd = r.Gone
	return nil
}

// Damaged returns what Forget with the zero token is asked of where the record
// that stands is damaged. Its generation is the time in seconds: derived keys
// must not repeat, and no number of forgets reaches it.
func Damaged(now int64) Record {
	return Record{Generation: int(now / int64(time.Second)), Gone: now + 1}
}

func (r *Record) heldBy(token ibid.Token, now int64) bool {
	return r.Held && r.Token == token && r.Kept(now)
}
