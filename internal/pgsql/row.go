package pgsql

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// layout is the version of a row that this program understands.
const layout = 1

// states of a row; 0 is released.
const (
	stateHeld = 1
	stateDone = 2
)

// row is one answer: a row of the table, or NULLs where there is none.
type row struct {
	key                           []byte
	version, state                *int16
	token                         []byte
	fence                         *int64
	attempt, vanished, generation *int32
	fingerprint, scope            []byte
	label, steps                  []byte
	leaseEnd, windowEnd, gone     *int64
	resultSum                     *int32
	sum, result                   []byte
	now                           int64 // when it was judged
}

// dest returns where the columns go, with those of extra after them.
func (r *row) dest(extra ...any) []any {
	return append([]any{
		&r.key, &r.version, &r.state, &r.token, &r.fence, &r.attempt, &r.vanished, &r.generation,
		&r.fingerprint, &r.scope, &r.label, &r.steps, &r.leaseEnd, &r.windowEnd, &r.gone, &r.resultSum,
		&r.sum, &r.result, &r.now,
	}, extra...)
}

// The types of columns, as the server numbers them.
const (
	typeInt8  = 20
	typeInt2  = 21
	typeInt4  = 23
	typeBytea = 17
)

// sound reports whether the columns are as they were written.
func (r *row) sound() bool { return bytes.Equal(r.sum, r.checksum()) }

// checksum returns what sum must be: the beginning of the SHA-256 of all
// columns, in the form in which the server sends a record (record_send): the
// number of columns and, of each, its type and its length before its bytes, all
// big-endian.
func (r *row) checksum() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 320+len(r.label)+len(r.steps)), 16)
	long := func(n *int64) {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, typeInt8<<32|8), uint64(*n))
	}
	plain := func(n *int32) {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, typeInt4<<32|4), uint32(*n))
	}
	short := func(n *int16) {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(b, typeInt2<<32|2), uint16(*n))
	}
	null := func(t uint64) { b = binary.BigEndian.AppendUint64(b, t<<32|0xffffffff) }
	text := func(p []byte) {
		if p == nil {
			null(typeBytea)
			return
		}
		b = append(binary.BigEndian.AppendUint64(b, typeBytea<<32|uint64(len(p))), p...)
	}
	text(r.key)
	short(r.version)
	short(r.state)
	text(r.token)
	long(r.fence)
	plain(r.attempt)
	plain(r.vanished)
	plain(r.generation)
	text(r.fingerprint)
	text(r.scope)
	text(r.label)
	text(r.steps)
	long(r.leaseEnd)
	long(r.windowEnd)
	long(r.gone)
	if r.resultSum == nil {
		null(typeInt4)
	} else {
		plain(r.resultSum)
	}
	sum := sha256.Sum256(b)
	return sum[:8]
}

// view returns the record at key as a caller sees it. ErrDamaged reports a row
// that was not written so, or not under key.
func (r *row) view(key ibid.Digest, withResult bool) (ibid.Record, error) {
	switch {
	case r.version == nil || r.state == nil || r.fence == nil || r.attempt == nil || r.vanished == nil ||
		r.generation == nil || r.leaseEnd == nil || r.windowEnd == nil || r.gone == nil:
		return ibid.Record{}, fmt.Errorf("%w: row without its columns", ibid.ErrDamaged)
	case *r.version != layout:
		return ibid.Record{}, fmt.Errorf("%w: record version %d, this program knows %d", ibid.ErrDamaged, *r.version, layout)
	case !bytes.Equal(r.key, key[:]) || !r.sound():
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
		if r.resultSum == nil || r.result == nil || *r.resultSum != resultSum(r.result) {
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

// resultSum is the beginning of the SHA-256 of a result.
func resultSum(result []byte) int32 {
	sum := sha256.Sum256(result)
	return int32(binary.BigEndian.Uint32(sum[:4]))
}
