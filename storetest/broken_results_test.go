package storetest_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// completed returns a Complete that changes what the right one has done.
func completed(f func(r *record.Record, k ibid.Keep, now int64)) func(*record.Record, ibid.Token, []byte, ibid.Keep, int64) (bool, error) {
	return func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
		changed, err := r.Complete(t, result, k, now)
		if changed {
			f(r, k, now)
		}
		return changed, err
	}
}

// again returns a Complete that gives another answer to a token that has
// completed the record.
func again(f func(r *record.Record, result []byte, k ibid.Keep, now int64) (bool, error)) func(*record.Record, ibid.Token, []byte, ibid.Keep, int64) (bool, error) {
	return func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
		if isState(r, now, ibid.Completed) && r.Token == t {
			return f(r, result, k, now)
		}
		return r.Complete(t, result, k, now)
	}
}

// Broken results, windows and contents.
var brokenResults = []bug{
	{"Complete asked again is lost", func(m *model) {
		m.complete = again(func(*record.Record, []byte, ibid.Keep, int64) (bool, error) { return false, ibid.ErrClaimLost })
	}},
	{"Complete asked again keeps the result longer", func(m *model) {
		m.complete = again(func(r *record.Record, result []byte, k ibid.Keep, now int64) (bool, error) {
			if !bytes.Equal(r.Result, result) {
				return false, ibid.ErrClaimLost
			}
			r.WindowEnd = now + int64(k.Retain)
			r.Gone = r.WindowEnd + int64(k.Remember)
			return true, nil
		})
	}},
	{"Complete asked again overwrites", func(m *model) {
		m.complete = again(func(r *record.Record, result []byte, _ ibid.Keep, _ int64) (bool, error) {
			r.Result = result
			return true, nil
		})
	}},
	{"Complete asked again compares lengths", func(m *model) {
		m.complete = again(func(r *record.Record, result []byte, _ ibid.Keep, _ int64) (bool, error) {
			if len(r.Result) != len(result) {
				return false, ibid.ErrClaimLost
			}
			return false, nil
		})
	}},
	{"Complete of the same result needs no token", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			if isState(r, now, ibid.Completed) && bytes.Equal(r.Result, result) {
				return false, nil
			}
			return r.Complete(t, result, k, now)
		}
	}},
	{"Complete asked again knows results that are no longer kept", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			if r.Done && r.Token == t && bytes.Equal(r.Result, result) {
				return false, nil
			}
			return r.Complete(t, result, k, now)
		}
	}},
	{"Complete is checked in one step and made in another", func(m *model) { m.torn["complete"] = true }},
	{"completion ends no lease", func(m *model) {
		m.show = func(v *ibid.Record, _ *record.Record, _ ibid.Claim) {
			if v.State == ibid.Completed {
				v.Lease = time.Second
			}
		}
	}},
	{"replays show no attempt", func(m *model) {
		m.show = func(v *ibid.Record, _ *record.Record, _ ibid.Claim) {
			if v.State == ibid.Completed {
				v.Attempt, v.Token, v.Fence = 0, ibid.Token{}, 0
			}
		}
	}},
	{"results are kept no longer than the claim", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			gone := r.Gone
			changed, err := r.Complete(t, result, k, now)
			if changed {
				r.WindowEnd, r.Gone = min(gone, r.WindowEnd), min(gone, r.Gone)
			}
			return changed, err
		}
	}},
	{"results are kept as long as the claim", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			gone := r.Gone
			changed, err := r.Complete(t, result, k, now)
			if changed {
				r.WindowEnd, r.Gone = max(gone, r.WindowEnd), max(gone, r.Gone)
			}
			return changed, err
		}
	}},
	{"results are kept one instant longer", func(m *model) {
		m.complete = completed(func(r *record.Record, k ibid.Keep, _ int64) {
			if k.Remember <= 0 {
				r.WindowEnd++
				r.Gone++
			}
		})
	}},
	{"results are kept one instant less", func(m *model) {
		m.complete = completed(func(r *record.Record, k ibid.Keep, _ int64) { r.WindowEnd-- })
	}},
	{"keys are remembered one instant longer", func(m *model) {
		m.complete = completed(func(r *record.Record, k ibid.Keep, _ int64) {
			if k.Remember > 0 {
				r.Gone++
			}
		})
	}},
	{"windows count from Begin", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			changed := r.Begin(c, now)
			if changed {
				r.Gone = max(r.LeaseEnd, now+int64(c.Window))
			}
			return changed
		}
	}},
	{"keys are not remembered", func(m *model) {
		m.complete = completed(func(r *record.Record, _ ibid.Keep, _ int64) { r.Gone = r.WindowEnd })
	}},
	{"remembered keys show their results", func(m *model) {
		m.show = func(v *ibid.Record, r *record.Record, _ ibid.Claim) {
			if v.State == ibid.Expired {
				v.Result = r.Result
			}
		}
	}},
	{"remembered keys may be claimed", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.Expired) {
				r.Gone = now
			}
			return r.Begin(c, now)
		}
	}},
	{"remembered keys drop their fingerprints", func(m *model) {
		m.show = func(v *ibid.Record, r *record.Record, _ ibid.Claim) {
			if v.State == ibid.Expired {
				v.Fingerprint = ibid.Fingerprint{}
			}
		}
	}},
	{"negative Remember cuts the window short", func(m *model) {
		m.complete = completed(func(r *record.Record, k ibid.Keep, _ int64) {
			r.Gone = r.WindowEnd + int64(k.Remember)
			r.WindowEnd = min(r.WindowEnd, r.Gone)
		})
	}},
	{"what is over is there until it is swept", func(m *model) {
		m.load = func(r *record.Record, now int64) {
			if r.Gone > 0 && r.Gone <= now {
				r.Gone = now + 1
				if r.Done {
					r.WindowEnd = r.Gone
				}
			}
		}
	}},
	{"what is over leaves its attempts", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			over, attempt, label := r.State(now) == ibid.Absent, r.Attempt, r.Label
			if over && c.MaxAttempts > 0 && attempt >= c.MaxAttempts {
				return false
			}
			changed := r.Begin(c, now)
			if over && changed {
				r.Attempt += attempt
				r.Label = label
			}
			return changed
		}
	}},
	{"what is over leaves its steps", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			steps := r.Steps
			changed := r.Begin(c, now)
			if changed {
				r.Steps = steps
			}
			return changed
		}
	}},
	{"what is over leaves its generation", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			generation := r.Generation
			changed := r.Begin(c, now)
			r.Generation = generation
			return changed
		}
	}},
	{"a replay keeps the result longer", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if isState(r, now, ibid.Completed) {
				r.WindowEnd += int64(time.Minute)
				r.Gone += int64(time.Minute)
				return true
			}
			return r.Begin(c, now)
		}
	}},
	{"all keys share the last window", func(m *model) {
		var last int64
		m.complete = completed(func(r *record.Record, _ ibid.Keep, _ int64) { last = r.Gone })
		m.load = func(r *record.Record, _ int64) {
			if r.Done {
				r.Gone, r.WindowEnd = last, last
			}
		}
	}},
	{"a released key is gone", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			changed := r.Release(t, now)
			if changed {
				r.Gone = now
			}
			return changed, nil
		}
	}},
	{"a released key stays for ever", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			changed := r.Release(t, now)
			if changed {
				r.Gone += int64(1000 * time.Hour)
			}
			return changed, nil
		}
	}},
	{"a released key keeps its fingerprint", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			print := r.Fingerprint
			changed := r.Release(t, now)
			r.Fingerprint = print
			return changed, nil
		}
	}},
	{"a released key always drops its fingerprint", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			changed := r.Release(t, now)
			if changed {
				r.Fingerprint = ibid.Fingerprint{}
			}
			return changed, nil
		}
	}},
	{"a released key drops its steps", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			changed := r.Release(t, now)
			if changed {
				r.Steps = nil
			}
			return changed, nil
		}
	}},
	{"a released key drops its attempts", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			changed := r.Release(t, now)
			if changed {
				r.Attempt = 0
			}
			return changed, nil
		}
	}},
	{"a released key is not claimed before its lease is over", func(m *model) {
		m.release = func(r *record.Record, t ibid.Token, now int64) (bool, error) {
			lease := r.LeaseEnd
			if !r.Release(t, now) {
				return false, nil
			}
			r.Held, r.LeaseEnd = true, lease
			return true, nil
		}
	}},
	{"results are kept by fingerprint", func(m *model) {
		results := map[ibid.Fingerprint][]byte{}
		m.complete = completed(func(r *record.Record, _ ibid.Keep, _ int64) { results[r.Fingerprint] = r.Result })
		m.show = func(v *ibid.Record, _ *record.Record, _ ibid.Claim) {
			if v.State == ibid.Completed {
				v.Result = bytes.Clone(results[v.Fingerprint])
			}
		}
	}},
	{"an empty result is no result", func(m *model) {
		m.complete = completed(func(r *record.Record, _ ibid.Keep, now int64) {
			if len(r.Result) == 0 {
				r.Gone = now
			}
		})
	}},
	{"a nil result is refused", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			if result == nil {
				return false, fmt.Errorf("result is NULL")
			}
			return r.Complete(t, result, k, now)
		}
	}},
	{"results are cut at 64 KiB", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			return r.Complete(t, result[:min(len(result), 1<<16)], k, now)
		}
	}},
	{"results are text", func(m *model) {
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			return r.Complete(t, bytes.ToValidUTF8(result, []byte("?")), k, now)
		}
	}},
	{"labels end at a NUL", func(m *model) {
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			if i := bytes.IndexByte(c.Label, 0); i >= 0 {
				c.Label = c.Label[:i]
			}
			return r.Begin(c, now)
		}
	}},
	{"keys are text without case", func(m *model) {
		m.key = func(k ibid.Digest) ibid.Digest {
			for i, b := range k {
				if 'A' <= b && b <= 'Z' {
					k[i] = b + 'a' - 'A'
				}
			}
			return k
		}
	}},
	{"keys end at a NUL", func(m *model) {
		m.key = func(k ibid.Digest) (cut ibid.Digest) {
			if i := bytes.IndexByte(k[:], 0); i >= 0 {
				copy(cut[:], k[:i])
				return cut
			}
			return k
		}
	}},
	{"keys are shortened", func(m *model) {
		m.key = func(k ibid.Digest) ibid.Digest { k[31] = 0; return k }
	}},
	{"results are kept in the caller's buffer", func(m *model) {
		given := map[ibid.Token][]byte{}
		m.complete = func(r *record.Record, t ibid.Token, result []byte, k ibid.Keep, now int64) (bool, error) {
			changed, err := r.Complete(t, result, k, now)
			if changed {
				given[t] = result
			}
			return changed, err
		}
		m.show = func(v *ibid.Record, r *record.Record, _ ibid.Claim) {
			if b, ok := given[v.Token]; ok && v.State == ibid.Completed {
				v.Result = b
			}
		}
	}},
	{"replays share one buffer", func(m *model) {
		shared := map[ibid.Token][]byte{}
		m.show = func(v *ibid.Record, r *record.Record, _ ibid.Claim) {
			if v.State == ibid.Completed {
				if _, ok := shared[v.Token]; !ok {
					shared[v.Token] = v.Result
				}
				v.Result = shared[v.Token]
			}
		}
	}},
	{"labels are kept in the caller's buffer", func(m *model) {
		given := map[ibid.Token][]byte{}
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool {
			given[c.Token] = c.Label
			return r.Begin(c, now)
		}
		m.show = func(v *ibid.Record, r *record.Record, _ ibid.Claim) { v.Label = given[v.Token] }
	}},
	{"steps are kept in the caller's buffer", func(m *model) {
		given := map[ibid.Token][]byte{}
		m.checkpoint = func(r *record.Record, t ibid.Token, steps []byte, now int64) error {
			err := r.Checkpoint(t, steps, now)
			if err == nil {
				given[t] = steps
			}
			return err
		}
		m.show = func(v *ibid.Record, r *record.Record, _ ibid.Claim) {
			if b, ok := given[v.Token]; ok && v.State == ibid.InProgress && len(v.Steps) > 0 {
				v.Steps = b
			}
		}
	}},
}
