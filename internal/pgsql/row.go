package pgsql

import (
	"fmt"
	"hash/crc32"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// layout is the version of a row that this program understands.
const layout = 1

// states of a row.
const (
	stateReleased = 0
	stateHeld     = 1
	stateDone     = 2
)

// row is one answer. Columns that are NULL where there is no row are pointers.
type row struct {
	version, state                *int64
	token                         []byte
	fence                         *int64
	attempt, vanished, generation *int64
	fingerprint, scope            []byte
	label, steps                  []byte
	leaseEnd, windowEnd, gone     *int64
	resultSum                     *int64
	result                        []byte
	sound                         *bool
	now                           int64 // when it was judged
}

// dest returns where the columns go, with those of extra after them.
func (r *row) dest(extra ...any) []any {
	return append([]any{
		&r.version, &r.state, &r.token, &r.fence, &r.attempt, &r.vanished, &r.generation,
		&r.fingerprint, &r.scope, &r.label, &r.steps, &r.leaseEnd, &r.windowEnd, &r.gone, &r.resultSum,
		&r.result, &r.sound, &r.now,
	}, extra...)
}

// view returns the record as a caller sees it. ErrDamaged reports a row that
// this program has not written so.
func (r *row) view(withResult bool) (ibid.Record, error) {
	switch {
	case r.version == nil || r.state == nil || r.fence == nil || r.sound == nil || r.gone == nil:
		return ibid.Record{}, fmt.Errorf("%w: row without its columns", ibid.ErrDamaged)
	case *r.version != layout:
		return ibid.Record{}, fmt.Errorf("%w: record version %d, this program knows %d", ibid.ErrDamaged, *r.version, layout)
	case !*r.sound || len(r.fingerprint) != 0 && len(r.fingerprint) != 32:
		return ibid.Record{}, fmt.Errorf("%w: checksum", ibid.ErrDamaged)
	}
	rec := record.Record{
		Held: *r.state == stateHeld, Done: *r.state == stateDone,
		Fence: *r.fence, Attempt: int(*r.attempt), Vanished: int(*r.vanished), Generation: int(*r.generation),
		Label: r.label, Steps: r.steps, Result: r.result,
		LeaseEnd: nanos(*r.leaseEnd, r.now), WindowEnd: nanos(*r.windowEnd, r.now), Gone: nanos(*r.gone, r.now),
	}
	copy(rec.Token[:], r.token)
	copy(rec.Fingerprint[:], r.fingerprint)
	copy(rec.Scope[:], r.scope)
	v := rec.View(0)
	if v.State == ibid.Completed && withResult {
		if r.resultSum == nil || r.result == nil || int32(*r.resultSum) != resultSum(r.result) {
			return ibid.Record{}, fmt.Errorf("%w: checksum of the result", ibid.ErrDamaged)
		}
	}
	return v, nil
}

// nanos returns how long after now a moment in microseconds is, bounded to what
// a Duration holds.
func nanos(micros, now int64) int64 {
	const limit = int64(1<<63-1) / 1000
	return max(-limit, min(micros-now, limit)) * 1000
}

// micros returns a duration as the server keeps it: rounded up, so that more than
// nothing stays so, and none above a hundred years.
func micros(d time.Duration) int64 {
	const limit = 100 * 366 * 24 * time.Hour
	d = max(0, min(d, limit))
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func resultSum(result []byte) int32 { return int32(crc32.Checksum(result, castagnoli)) }
