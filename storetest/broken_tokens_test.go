package storetest_test

import (
	"bytes"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// Broken leases and tokens.
var brokenTokens = []bug{
	{"leases never end", func(m *model) {
		m.load = func(r *record.Record, now int64) {
			if r.Held && r.LeaseEnd <= now && r.LeaseEnd > 0 {
				r.Gone += now + 1 - r.LeaseEnd
				r.LeaseEnd = now + 1
			}
		}
	}},
	{"leases end one instant late", func(m *model) {
		m.load = func(r *record.Record, now int64) {
			if r.Held && r.LeaseEnd == now && r.Kept(now) {
				r.LeaseEnd++
				r.Gone++
			}
		}
	}},
	{"leases end one instant early", func(m *model) {
		m.load = func(r *record.Record, now int64) {
			if r.Held && r.LeaseEnd == now+1 {
				r.LeaseEnd--
			}
		}
	}},
	{"leases are 32-bit milliseconds", func(m *model) {
		cut := func(d time.Duration) time.Duration { return time.Duration(int32(d.Milliseconds())) * time.Millisecond }
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			c.Lease = cut(c.Lease)
			return r.Begin(c, now)
		}
	}},
	{"Extend adds to what is left", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			if lease > 0 && r.LeaseEnd > now {
				lease += time.Duration(r.LeaseEnd - now)
			}
			return r.Extend(t, lease, now)
		}
	}},
	{"Extend never shortens", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			if lease > 0 {
				lease = max(lease, time.Duration(r.LeaseEnd-now))
			}
			return r.Extend(t, lease, now)
		}
	}},
	{"Extend leaves the window behind", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			gone := r.Gone
			err := r.Extend(t, lease, now)
			if err == nil && lease > 0 {
				r.Gone = max(gone, r.LeaseEnd)
			}
			return err
		}
	}},
	{"Extend renews no lapsed claim", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			if lease > 0 && !isState(r, now, ibid.InProgress) {
				return ibid.ErrClaimLost
			}
			return r.Extend(t, lease, now)
		}
	}},
	{"giving up renews for an instant", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			if lease <= 0 {
				lease = time.Millisecond
			}
			return r.Extend(t, lease, now)
		}
	}},
	{"giving up releases", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			err := r.Extend(t, lease, now)
			if err == nil && lease <= 0 {
				r.Release(t, now)
			}
			return err
		}
	}},
	{"giving up forgets the key", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			err := r.Extend(t, lease, now)
			if err == nil && lease <= 0 {
				r.Gone = now
			}
			return err
		}
	}},
	{"a negative lease shortens the window", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			err := r.Extend(t, lease, now)
			if err == nil && lease < 0 {
				r.Gone += int64(lease)
			}
			return err
		}
	}},
	{"giving up twice is lost", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			if lease <= 0 && isState(r, now, ibid.Lapsed) {
				return ibid.ErrClaimLost
			}
			return r.Extend(t, lease, now)
		}
	}},
	{"Complete asks for a lease", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			if isState(r, now, ibid.Lapsed) {
				return false, ibid.ErrClaimLost
			}
			return r.Complete(t, result, k, now)
		}
	}},
	{"Release asks for a lease", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			return isState(r, now, ibid.InProgress) && r.Release(t, now), nil
		}
	}},
	{"Complete compares no token", func(m *model) {
		m.complete = func(r *record.Record, _ ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			return r.Complete(r.Token, result, k, now)
		}
	}},
	{"Extend compares no token", func(m *model) {
		m.extend = func(r *record.Record, _ ibid.Token, lease time.Duration, now int64) error {
			return r.Extend(r.Token, lease, now)
		}
	}},
	{"giving up compares no token", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			if lease <= 0 {
				t = r.Token
			}
			return r.Extend(t, lease, now)
		}
	}},
	{"Release compares no token", func(m *model) {
		m.release = func(r *record.Record, _ ibid.Token, now int64) (bool, error) {
			return r.Release(r.Token, now), nil
		}
	}},
	{"Release of what is not held is an error", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			if r.Release(t, now) {
				return true, nil
			}
			return false, ibid.ErrClaimLost
		}
	}},
	{"Release reopens a completed key", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			if r.Done && r.Kept(now) && r.Token == t {
				r.Done, r.Held, r.Result = false, true, nil
			}
			return r.Release(t, now), nil
		}
	}},
	{"Release makes a record of an absent key", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			if !r.Kept(now) {
				*r = record.Record{Token: t, Gone: now + int64(time.Hour)}
				return true, nil
			}
			return r.Release(t, now), nil
		}
	}},
	{"tokens are shortened", func(m *model) {
		whole := func(r *record.Record, t ibid.Token) ibid.Token {
			if bytes.Equal(r.Token[:8], t[:8]) && r.Kept(0) {
				return r.Token
			}
			return t
		}
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			return r.Extend(whole(r, t), lease, now)
		}
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			return r.Complete(whole(r, t), result, k, now)
		}
	}},
	{"a released key is held by who has no token", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			if isState(r, now, ibid.Released) && t.IsZero() {
				r.Held, r.Token = true, t
			}
			return r.Complete(t, result, k, now)
		}
	}},
	{"the window's end is not asked", func(m *model) {
		revive := func(r *record.Record, now int64) {
			if r.Gone > 0 {
				r.Gone = max(r.Gone, now+1)
			}
		}
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			revive(r, now)
			return r.Extend(t, lease, now)
		}
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			revive(r, now)
			return r.Complete(t, result, k, now)
		}
	}},
	{"the owner is known by its attempt", func(m *model) {
		attempts := map[ibid.Token]int{}
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			changed := r.Begin(c, now)
			if r.Token == c.Token {
				attempts[c.Token] = r.Attempt
			}
			return changed
		}
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			if r.Held && attempts[t] == r.Attempt {
				t = r.Token
			}
			return r.Complete(t, result, k, now)
		}
	}},
	{"Complete after Release succeeds", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			if isState(r, now, ibid.Released) && r.Token == t {
				r.Held = true
			}
			return r.Complete(t, result, k, now)
		}
	}},
	{"Extend reopens a completed key", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			if isState(r, now, ibid.Completed) && r.Token == t {
				r.Done, r.Held, r.Result = false, true, nil
				r.LeaseEnd = now
			}
			return r.Extend(t, lease, now)
		}
	}},
	{"Extend is checked in one step and made in another", func(m *model) { m.torn["extend"] = true }},
	{"Release is checked in one step and made in another", func(m *model) { m.torn["release"] = true }},
	{"fences start anew with each window", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			fence := int64(0)
			if r.Kept(now) {
				fence = r.Fence
			}
			old := r.Fence
			changed := r.Begin(c, now)
			if r.Fence != old {
				r.Fence = fence + 1
			}
			return changed
		}
	}},
	{"fences count, and are lost when swept", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			old := r.Fence
			changed := r.Begin(c, now)
			if r.Fence != old {
				r.Fence = old + 1
			}
			return changed
		}
	}},
	{"fences are the clock", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			old := r.Fence
			changed := r.Begin(c, now)
			if r.Fence != old {
				r.Fence = now / int64(time.Microsecond)
			}
			return changed
		}
	}},
	{"fences grow with releases only", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			lapsed, old := isState(r, now, ibid.Lapsed), r.Fence
			changed := r.Begin(c, now)
			if lapsed {
				r.Fence = old
			}
			return changed
		}
	}},
	{"fences start anew when forgotten", func(m *model) {
		m.forget = func(r *record.Record, t ibid.Token, window time.Duration, now int64) error {
			err := r.Forget(t, window, now)
			if err == nil {
				r.Fence = 0
			}
			return err
		}
	}},
	{"fences grow with renewals", func(m *model) {
		m.extend = func(r *record.Record, t ibid.Token, lease time.Duration, now int64) error {
			err := r.Extend(t, lease, now)
			if err == nil {
				r.Fence++
			}
			return err
		}
	}},
}
