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

// row is one answer. Its record is the checked columns in the form in which the
// server sends a record (record_send): the number of columns and, of each, its type
// and its length before its bytes, all big-endian. The sum is the beginning of the
// SHA-256 of that.
type row struct {
	record, sum, result []byte // record is nil where there is no row
	now                 int64  // when it was judged, in microseconds
}

// dest returns where the columns go, with those of extra after them.
func (r *row) dest(extra ...any) []any {
	return append([]any{&r.record, &r.sum, &r.result, &r.now}, extra...)
}

// view returns the record as a caller sees it, and its key. ErrDamaged reports a
// row that was not written so.
func (r *row) view(withResult bool) (key ibid.Digest, v ibid.Record, err error) {
	c := columns{rest: r.record, ok: true}
	var rec record.Record
	if n := c.take(4); n == nil || binary.BigEndian.Uint32(n) != 16 {
		c.ok = false
	}
	c.copy(key[:])
	if v := c.int2(); c.ok && v != layout {
		return key, ibid.Record{}, fmt.Errorf("%w: record version %d, this program knows %d", ibid.ErrDamaged, v, layout)
	}
	if sum := sha256.Sum256(r.record); !bytes.Equal(r.sum, sum[:8]) {
		return key, ibid.Record{}, fmt.Errorf("%w: checksum", ibid.ErrDamaged)
	}
	state := c.int2()
	rec.Held, rec.Done = state == stateHeld, state == stateDone
	c.copy(rec.Token[:])
	rec.Fence = c.int8()
	rec.Attempt, rec.Vanished, rec.Generation = c.int4(), c.int4(), c.int4()
	if p := c.next(typeBytea); len(p) > 0 { // empty is none
		c.ok = c.ok && copy(rec.Fingerprint[:], p) == len(p)
	}
	c.copy(rec.Scope[:])
	rec.Label, rec.Steps = c.next(typeBytea), c.next(typeBytea)
	rec.LeaseEnd, rec.WindowEnd, rec.Gone = nanos(c.int8(), r.now), nanos(c.int8(), r.now), nanos(c.int8(), r.now)
	sum := c.next(typeInt4)
	if !c.ok || len(c.rest) > 0 {
		return key, ibid.Record{}, fmt.Errorf("%w: record does not parse", ibid.ErrDamaged)
	}
	rec.Result = r.result
	v = rec.View(0)
	if v.State == ibid.Completed && withResult {
		if len(sum) != 4 || r.result == nil || int32(binary.BigEndian.Uint32(sum)) != resultSum(r.result) {
			return key, ibid.Record{}, fmt.Errorf("%w: checksum of the result", ibid.ErrDamaged)
		}
	}
	return key, v, nil
}

// columns takes columns off the front of a sent record; ok becomes false at the
// first that is not as it should be.
type columns struct {
	rest []byte
	ok   bool
}

// The types of columns, as the server numbers them.
const (
	typeInt8  = 20
	typeInt2  = 21
	typeInt4  = 23
	typeBytea = 17
)

func (c *columns) take(n int) []byte {
	if n < 0 || n > len(c.rest) {
		c.ok, c.rest = false, nil
		return nil
	}
	p := c.rest[:n:n]
	c.rest = c.rest[n:]
	return p
}

// next returns the bytes of a column of that type; nil for NULL.
func (c *columns) next(kind uint32) []byte {
	head := c.take(8)
	if head == nil || binary.BigEndian.Uint32(head) != kind {
		c.ok = false
		return nil
	}
	if n := int32(binary.BigEndian.Uint32(head[4:])); n >= 0 {
		return c.take(int(n))
	}
	return nil
}

func (c *columns) number(kind uint32, size int) (n int64) {
	p := c.next(kind)
	c.ok = c.ok && len(p) == size
	for _, b := range p {
		n = n<<8 | int64(b)
	}
	return n
}

func (c *columns) int2() int   { return int(int16(c.number(typeInt2, 2))) }
func (c *columns) int4() int   { return int(int32(c.number(typeInt4, 4))) }
func (c *columns) int8() int64 { return c.number(typeInt8, 8) }

// copy fills p, which the column must fit.
func (c *columns) copy(p []byte) {
	got := c.next(typeBytea)
	c.ok = c.ok && len(got) == len(p)
	copy(p, got)
}

// sumOfColumns returns the checksum of a record whose columns are these.
func sumOfColumns(columns ...any) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(columns)))
	for _, v := range columns {
		switch v := v.(type) {
		case int16:
			b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(b, typeInt2<<32|2), uint16(v))
		case int32:
			b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, typeInt4<<32|4), uint32(v))
		case int64:
			b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, typeInt8<<32|8), uint64(v))
		case []byte:
			size := uint64(len(v))
			if v == nil {
				size = 1<<32 - 1
			}
			b = append(binary.BigEndian.AppendUint64(b, typeBytea<<32|size), v...)
		}
	}
	sum := sha256.Sum256(b)
	return sum[:8]
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
