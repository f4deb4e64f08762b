package storetest_test

import (
	"bytes"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// bug is a store that is broken in one way.
type bug struct {
	name string
	do   func(m *model)
}

// sure are the broken stores whose answers in a race do not depend on who comes
// first.
var sure = map[string]bool{
	"a claim is checked in one step and made in another":  true,
	"Extend is checked in one step and made in another":   true,
	"Release is checked in one step and made in another":  true,
	"Complete is checked in one step and made in another": true,
	"Sweep chooses in one step and deletes in another":    true,
	"asking again counts as an attempt":                   true,
	"results are kept by fingerprint":                     true,
	"each handle has a store of its own":                  true,
}

// isState reports whether r is in one of states at now.
func isState(r *record.Record, now int64, states ...ibid.State) bool {
	for _, s := range states {
		if r.State(now) == s {
			return true
		}
	}
	return false
}

// Broken claims and takeovers.
var brokenClaims = []bug{
	{"claims are not kept", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if r.State(now) == ibid.Absent {
				return false
			}
			return r.Begin(c, now)
		}
	}},
	{"every Begin is granted", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.InProgress) && r.Token != c.Token {
				r.Held = false
			}
			return r.Begin(c, now)
		}
	}},
	{"whoever takes over does not wait for the lease", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if r.Held && c.MaxTakeovers != 0 && r.Token != c.Token {
				r.LeaseEnd = now
			}
			return r.Begin(c, now)
		}
	}},
	{"a loser is shown its own token", func(m *model) {
		m.show = func(v *ibid.Record, _ *record.Record, asked ibid.Claim) {
			if v.State == ibid.InProgress && !asked.Token.IsZero() {
				v.Token = asked.Token
			}
		}
	}},
	{"Begin shows half of the lease it granted", func(m *model) {
		m.show = func(v *ibid.Record, _ *record.Record, asked ibid.Claim) {
			if v.Token == asked.Token {
				v.Lease /= 2
			}
		}
	}},
	{"Look shows no token of a claim in progress", func(m *model) {
		m.show = func(v *ibid.Record, _ *record.Record, asked ibid.Claim) {
			if v.State == ibid.InProgress && asked.Token.IsZero() {
				v.Token = ibid.Token{}
			}
		}
	}},
	{"fingerprints are not shown in progress", func(m *model) {
		m.show = func(v *ibid.Record, _ *record.Record, _ ibid.Claim) {
			if v.State == ibid.InProgress {
				v.Fingerprint = ibid.Fingerprint{}
			}
		}
	}},
	{"fingerprints are dropped on completion", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			changed, err := r.Complete(t, result, k, now)
			if changed {
				r.Fingerprint = ibid.Fingerprint{}
			}
			return changed, err
		}
	}},
	{"scopes and labels are dropped on completion", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			changed, err := r.Complete(t, result, k, now)
			if changed {
				r.Scope, r.Label = ibid.Digest{}, nil
			}
			return changed, err
		}
	}},
	{"a label stays when the next claim has none", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			label := r.Label
			changed := r.Begin(c, now)
			if len(r.Label) == 0 {
				r.Label = label
			}
			return changed
		}
	}},
	{"scopes are those of the first claim", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if r.Kept(now) && r.Scope != (ibid.Digest{}) {
				c.Scope = r.Scope
			}
			return r.Begin(c, now)
		}
	}},
	{"an absent key shows the store's defaults", func(m *model) {
		m.show = func(v *ibid.Record, _ *record.Record, _ ibid.Claim) {
			if v.State == ibid.Absent {
				v.Window = time.Hour
			}
		}
	}},
	{"asking again counts as an attempt", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			again := r.Held && r.Token == c.Token && r.Kept(now)
			changed := r.Begin(c, now)
			if again && changed {
				r.Attempt++
			}
			return changed
		}
	}},
	{"asking again grants no fresh lease", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.InProgress) {
				return false
			}
			return r.Begin(c, now)
		}
	}},
	{"asking again after the lease is refused", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.Lapsed) && r.Token == c.Token {
				return false
			}
			return r.Begin(c, now)
		}
	}},
	{"asking again after the lease takes over from oneself", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			again := isState(r, now, ibid.Lapsed) && r.Token == c.Token
			if again {
				r.Vanished++
				r.Attempt++
			}
			return r.Begin(c, now)
		}
	}},
	{"limits bind who asks again", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if r.Held && r.Kept(now) && r.Token == c.Token && (c.MaxTakeovers >= 0 && r.Vanished > c.MaxTakeovers || c.MaxAttempts > 0 && r.Attempt > c.MaxAttempts) {
				r.Token = ibid.Token{}
			}
			return r.Begin(c, now)
		}
	}},
	{"a claim may be asked for again after it was taken over", func(m *model) {
		owners := map[ibid.Token]bool{}
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.InProgress) && owners[c.Token] {
				r.Token = c.Token
			}
			changed := r.Begin(c, now)
			if changed {
				owners[c.Token] = true
			}
			return changed
		}
	}},
	{"a copy of the first Begin reopens a completed key", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.Completed) && r.Token == c.Token {
				r.Done, r.Held = false, true
			}
			return r.Begin(c, now)
		}
	}},
	{"any claim takes over a lapsed one", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			c.MaxTakeovers = -1
			return r.Begin(c, now)
		}
	}},
	{"no claim is ever taken over", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			c.MaxTakeovers = 0
			return r.Begin(c, now)
		}
	}},
	{"MaxTakeovers is one too many", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if c.MaxTakeovers > 0 {
				c.MaxTakeovers++
			}
			return r.Begin(c, now)
		}
	}},
	{"negative MaxTakeovers is a handful", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if c.MaxTakeovers < 0 {
				c.MaxTakeovers = 5
			}
			return r.Begin(c, now)
		}
	}},
	{"MaxTakeovers binds the last attempt only", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.Released) {
				c.MaxTakeovers = -1
			}
			return r.Begin(c, now)
		}
	}},
	{"takeovers count nothing as vanished", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			vanished := r.Vanished
			changed := r.Begin(c, now)
			if r.Vanished > vanished {
				r.Vanished = vanished
			}
			return changed
		}
	}},
	{"an attempt has vanished once its lease is over", func(m *model) {
		m.load = func(r *record.Record, now int64) {
			if isState(r, now, ibid.Lapsed) && r.Vanished == 0 {
				r.Vanished = 1
			}
		}
		m.show = func(v *ibid.Record, r *record.Record, _ ibid.Claim) { v.Vanished = r.Vanished }
	}},
	{"MaxAttempts is one too many", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if c.MaxAttempts > 0 {
				c.MaxAttempts++
			}
			return r.Begin(c, now)
		}
	}},
	{"MaxAttempts does not bind takeovers", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.Lapsed) {
				c.MaxAttempts = 0
			}
			return r.Begin(c, now)
		}
	}},
	{"MaxAttempts of 0 or less is a handful", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if c.MaxAttempts <= 0 {
				c.MaxAttempts = 10
			}
			return r.Begin(c, now)
		}
	}},
	{"a lapsed claim is taken over whatever its fingerprint", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.Lapsed) {
				r.Fingerprint = c.Fingerprint
			}
			return r.Begin(c, now)
		}
	}},
	{"fingerprints are shortened", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if bytes.Equal(r.Fingerprint[:16], c.Fingerprint[:16]) {
				c.Fingerprint = r.Fingerprint
			}
			return r.Begin(c, now)
		}
	}},
	{"the zero fingerprint stands for any", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if r.Fingerprint == (ibid.Fingerprint{}) {
				r.Fingerprint = c.Fingerprint
			}
			return r.Begin(c, now)
		}
	}},
	{"a claim is checked in one step and made in another", func(m *model) { m.torn["begin"] = true }},
	{"all keys are one", func(m *model) {
		m.key = func(k ibid.Digest) ibid.Digest { return ibid.Digest{} }
	}},
}
