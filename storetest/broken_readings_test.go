package storetest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// Broken readings: what must change nothing does.
var brokenReadings = []bug{
	{"Look renews what it sees", func(m *model) {
		m.look = func(r *record.Record, now int64) bool {
			r.Gone += int64(time.Minute)
			r.WindowEnd += int64(time.Minute)
			r.LeaseEnd += int64(time.Minute)
			return r.Kept(now)
		}
	}},
	{"Look renews a claim in progress", func(m *model) {
		m.look = func(r *record.Record, now int64) bool {
			if !isState(r, now, ibid.InProgress) {
				return false
			}
			r.LeaseEnd, r.Gone = r.LeaseEnd+1000, r.Gone+1000
			return true
		}
	}},
	{"Look counts as an attempt of a released key", func(m *model) {
		m.look = func(r *record.Record, now int64) bool {
			if !isState(r, now, ibid.Released) {
				return false
			}
			r.Attempt++
			return true
		}
	}},
	{"Look frees what lapsed", func(m *model) {
		m.look = func(r *record.Record, now int64) bool {
			if isState(r, now, ibid.Lapsed) {
				r.Held, r.LeaseEnd = false, 0
				return true
			}
			return false
		}
	}},
	{"Look makes a record", func(m *model) {
		m.look = func(r *record.Record, now int64) bool {
			if r.Kept(now) {
				return false
			}
			*r = record.Record{Attempt: 1, Gone: now + int64(time.Hour)}
			return true
		}
	}},
	{"a refused Begin renews the claim that stands", func(m *model) {
		m.begin = refused(func(r *record.Record, c ibid.Claim, now int64) {
			r.LeaseEnd, r.Gone = r.LeaseEnd+int64(time.Minute), r.Gone+int64(time.Minute)
		}, ibid.InProgress)
	}},
	{"a refused Begin leaves its label", func(m *model) {
		m.begin = refused(func(r *record.Record, c ibid.Claim, now int64) {
			r.Label, r.Scope = bytes.Clone(c.Label), c.Scope
		}, ibid.InProgress, ibid.Completed)
	}},
	{"a refused takeover counts as vanished", func(m *model) {
		m.begin = refused(func(r *record.Record, c ibid.Claim, now int64) { r.Vanished++ }, ibid.Lapsed)
	}},
	{"a refused attempt is counted", func(m *model) {
		m.begin = refused(func(r *record.Record, c ibid.Claim, now int64) { r.Attempt++ }, ibid.Released)
	}},
	{"asking for a remembered key remembers it longer", func(m *model) {
		m.begin = refused(func(r *record.Record, c ibid.Claim, now int64) { r.Gone += int64(time.Minute) }, ibid.Expired)
	}},
}

// refused returns a Begin that changes a record in one of states which it does
// not grant.
func refused(f func(r *record.Record, c ibid.Claim, now int64), states ...ibid.State) func(*record.Record, ibid.Claim, int64) bool {
	return func(r *record.Record, c ibid.Claim, now int64) bool {
		stood := isState(r, now, states...)
		if r.Begin(c, now) {
			return true
		}
		if stood {
			f(r, c, now)
		}
		return stood
	}
}

// Broken readings of contexts and of damaged records.
var brokenFailures = []bug{
	{"contexts are not asked", func(m *model) {
		m.ended = func(context.Context, string) error { return nil }
	}},
	{"deadlines are not asked", func(m *model) {
		m.ended = func(ctx context.Context, _ string) error {
			if ctx.Err() == context.DeadlineExceeded {
				return nil
			}
			return ctx.Err()
		}
	}},
	{"no checksum is compared", func(m *model) {
		m.decode = func(key ibid.Digest, b []byte) (record.Record, error) {
			if len(b) < 4 {
				return record.Decode(key, b)
			}
			body := b[: len(b)-4 : len(b)-4]
			sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) ^ key.Fold()
			return record.Decode(key, binary.LittleEndian.AppendUint32(body, sum))
		}
	}},
	{"the checksum does not cover the key", func(m *model) {
		m.decode = func(key ibid.Digest, b []byte) (record.Record, error) {
			r, err := record.Decode(key, b)
			for other := range m.records {
				if err != nil {
					r, err = record.Decode(other, b)
				}
			}
			return r, err
		}
	}},
	{"only Begin understands damage", func(m *model) {
		m.decode = func(key ibid.Digest, b []byte) (record.Record, error) {
			r, err := record.Decode(key, b)
			if err != nil {
				return record.Record{Gone: 1}, nil
			}
			return r, nil
		}
		m.begin = func(r *record.Record, c ibid.Claim, now int64) bool { return r.Gone != 1 && r.Begin(c, now) }
	}},
	{"damaged records are absent", func(m *model) {
		m.decode = func(key ibid.Digest, b []byte) (record.Record, error) {
			r, err := record.Decode(key, b)
			if err != nil {
				return record.Record{}, nil
			}
			return r, nil
		}
	}},
	{"damage is some error", func(m *model) {
		m.decode = func(key ibid.Digest, b []byte) (record.Record, error) {
			r, err := record.Decode(key, b)
			if err != nil {
				return r, errors.New("disk: read error")
			}
			return r, nil
		}
	}},
}
