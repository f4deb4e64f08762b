package storetest_test

import (
	"bytes"
	"slices"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// Broken abilities.
var brokenAbilities = []bug{
	{"Sweep deletes nothing", func(m *model) {
		m.sweep = func([]ibid.Digest, int) ([]ibid.Digest, int) { return nil, 0 }
	}},
	{"Sweep has no limit", func(m *model) {
		m.sweep = func(over []ibid.Digest, _ int) ([]ibid.Digest, int) { return over, len(over) }
	}},
	{"Sweep takes 0 for no limit", func(m *model) {
		m.sweep = func(over []ibid.Digest, limit int) ([]ibid.Digest, int) {
			if limit > 0 {
				over = over[:min(len(over), limit)]
			}
			return over, len(over)
		}
	}},
	{"Sweep counts what it has seen", func(m *model) {
		m.sweep = func(over []ibid.Digest, limit int) ([]ibid.Digest, int) {
			return over[:min(len(over), limit)], len(over)
		}
	}},
	{"Sweep deletes what lapsed", func(m *model) {
		m.over = func(r *record.Record, now int64) bool { return isState(r, now, ibid.Absent, ibid.Lapsed) }
	}},
	{"Sweep deletes what is in progress", func(m *model) {
		m.over = func(r *record.Record, now int64) bool { return isState(r, now, ibid.Absent, ibid.InProgress) }
	}},
	{"Sweep deletes remembered keys", func(m *model) {
		m.over = func(r *record.Record, now int64) bool { return isState(r, now, ibid.Absent, ibid.Expired) }
	}},
	{"Sweep deletes completed keys only", func(m *model) {
		m.over = func(r *record.Record, now int64) bool { return !r.Kept(now) && r.Done }
	}},
	{"Sweep leaves remembered keys for ever", func(m *model) {
		m.over = func(r *record.Record, now int64) bool { return !r.Kept(now) && r.Gone == r.WindowEnd }
	}},
	{"Sweep trusts the first window of a key", func(m *model) {
		first := map[ibid.Token]int64{}
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			changed := r.Begin(c, now)
			if _, ok := first[r.Token]; !ok {
				first[r.Token] = r.Gone
			}
			return changed
		}
		m.over = func(r *record.Record, now int64) bool { return first[r.Token] <= now }
	}},
	{"Sweep chooses in one step and deletes in another", func(m *model) { m.torn["sweep"] = true }},

	{"nobody is woken by a completion", func(m *model) { m.wakes = silent("complete") }},
	{"nobody is woken by a release", func(m *model) { m.wakes = silent("release") }},
	{"nobody is woken by giving up", func(m *model) { m.wakes = silent("give up") }},
	{"one is woken", func(m *model) {
		m.wakes = func(_ string, waits []*modelWait) []*modelWait { return waits[:min(1, len(waits))] }
	}},
	{"a key wakes once", func(m *model) {
		woken := 0
		m.wakes = func(_ string, waits []*modelWait) []*modelWait {
			if len(waits) > 0 {
				woken++
			}
			if woken > 1 {
				return nil
			}
			return waits
		}
	}},
	{"who stops stops all", func(m *model) {
		m.stop = func(_ *modelWait, calls int, _ []*modelWait) { m.waits = map[ibid.Digest][]*modelWait{} }
	}},
	{"stop panics when called twice", func(m *model) {
		m.stop = func(_ *modelWait, calls int, _ []*modelWait) {
			if calls > 1 {
				panic("close of closed channel")
			}
		}
	}},

	{"List is in no order", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			out := page(all, f, after, limit)
			slices.Reverse(out)
			return out
		}
	}},
	{"List has no limit", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			return page(all, f, after, len(all))
		}
	}},
	{"List repeats the last key of a page", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			for i, e := range all {
				if e.Key == after && i > 0 {
					after = all[i-1].Key
					break
				}
			}
			return page(all, f, after, limit)
		}
	}},
	{"List shows every scope", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			f.Scope = ibid.Digest{}
			return page(all, f, after, limit)
		}
	}},
	{"List shows every state", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			f.States = nil
			return page(all, f, after, limit)
		}
	}},
	{"List knows one state at a time", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			f.States = f.States[:min(1, len(f.States))]
			return page(all, f, after, limit)
		}
	}},
	{"List asks no clock", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			for i := range all {
				if r := &all[i].Record; r.State == ibid.Lapsed && r.Window < 24*time.Hour {
					r.State = ibid.InProgress
				}
			}
			return page(all, f, after, limit)
		}
	}},
	{"List shows what is over", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			for i := range all {
				if r := &all[i].Record; r.State == ibid.Absent {
					r.State = ibid.Released
				}
			}
			return page(all, f, after, limit)
		}
	}},
	{"List shows results", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) (out []ibid.Entry) {
			for _, e := range page(all, f, after, limit) {
				i := slices.IndexFunc(all, func(a ibid.Entry) bool { return a.Key == e.Key })
				out = append(out, all[i])
			}
			return out
		}
	}},
	{"List shows no labels", func(m *model) {
		m.list = func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry {
			out := page(all, f, after, limit)
			for i := range out {
				out[i].Record.Label = nil
			}
			return out
		}
	}},
	{"Forget deletes", func(m *model) {
		m.forget = func(r *record.Record, t ibid.Token, window time.Duration, now int64) error {
			err := r.Forget(t, window, now)
			if err == nil {
				r.Gone = now
			}
			return err
		}
	}},
	{"Forget raises the generation once", func(m *model) {
		m.forget = func(r *record.Record, t ibid.Token, window time.Duration, now int64) error {
			err := r.Forget(t, window, now)
			r.Generation = min(r.Generation, 1)
			return err
		}
	}},
	{"a release drops the generation", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			changed := r.Release(t, now)
			if changed {
				r.Generation = 0
			}
			return changed, nil
		}
	}},
	{"Forget compares no token", func(m *model) {
		m.forget = func(r *record.Record, _ ibid.Token, window time.Duration, now int64) error {
			return r.Forget(r.Token, window, now)
		}
	}},
	{"Forget of an absent key makes a record", func(m *model) {
		m.forget = func(r *record.Record, t ibid.Token, window time.Duration, now int64) error {
			if !r.Kept(now) {
				r.Token, r.Gone = t, now+1
			}
			return r.Forget(t, window, now)
		}
	}},
	{"Forget leaves the claim standing", func(m *model) {
		m.forget = func(r *record.Record, t ibid.Token, window time.Duration, now int64) error {
			held, lease := r.Held, r.LeaseEnd
			err := r.Forget(t, window, now)
			if err == nil && held {
				r.Held, r.LeaseEnd, r.Token = true, lease, t
				r.Gone = max(r.Gone, lease)
			}
			return err
		}
	}},
	{"generations stay for ever", func(m *model) {
		m.forget = func(r *record.Record, t ibid.Token, window time.Duration, now int64) error {
			return r.Forget(t, window+1000*time.Hour, now)
		}
	}},
	{"Forget leaves steps", func(m *model) {
		m.forget = func(r *record.Record, t ibid.Token, window time.Duration, now int64) error {
			steps := r.Steps
			err := r.Forget(t, window, now)
			if err == nil {
				r.Steps = steps
			}
			return err
		}
	}},

	{"a takeover drops the steps", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			lapsed := isState(r, now, ibid.Lapsed)
			changed := r.Begin(c, now)
			if lapsed && changed {
				r.Steps = nil
			}
			return changed
		}
	}},
	{"asking again drops the steps", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			changed := r.Begin(c, now)
			if changed {
				r.Steps = nil
			}
			return changed
		}
	}},
	{"steps are appended", func(m *model) {
		m.checkpoint = func(r *record.Record, t ibid.Token, steps []byte, now int64) error {
			return r.Checkpoint(t, append(bytes.Clone(r.Steps), steps...), now)
		}
	}},
	{"a checkpoint renews the lease", func(m *model) {
		m.checkpoint = func(r *record.Record, t ibid.Token, steps []byte, now int64) error {
			err := r.Checkpoint(t, steps, now)
			if err == nil {
				r.LeaseEnd += int64(time.Minute)
				r.Gone += int64(time.Minute)
			}
			return err
		}
	}},
	{"Checkpoint compares no token", func(m *model) {
		m.checkpoint = func(r *record.Record, _ ibid.Token, steps []byte, now int64) error {
			return r.Checkpoint(r.Token, steps, now)
		}
	}},
	{"Checkpoint asks for no claim", func(m *model) {
		m.checkpoint = func(r *record.Record, t ibid.Token, steps []byte, now int64) error {
			if r.Kept(now) && r.Token == t {
				r.Steps = bytes.Clone(steps)
				return nil
			}
			return ibid.ErrClaimLost
		}
	}},

	{"Describe names nothing", func(m *model) {
		m.describe = func() ibid.Description {
			d := described(ibid.ProcessKill)
			d.Store = ""
			return d
		}
	}},
	{"Describe advises nothing", func(m *model) {
		m.describe = func() ibid.Description { return ibid.Description{Store: "model", Survives: ibid.ProcessKill} }
	}},
	{"Describe advises on what it promises", func(m *model) {
		m.describe = func() ibid.Description {
			d := described(0)
			d.Survives = ibid.PowerLoss
			return d
		}
	}},
	{"each handle has a store of its own", func(m *model) { m.alone = true }},
	{"damage stops List", func(m *model) { m.unlisted = true }},
	{"a damaged record cannot be forgotten", func(m *model) { m.stuck = true }},
}

// silent wakes nobody when verb happens.
func silent(verb string) func(string, []*modelWait) []*modelWait {
	return func(v string, waits []*modelWait) []*modelWait {
		if v == verb {
			return nil
		}
		return waits
	}
}
