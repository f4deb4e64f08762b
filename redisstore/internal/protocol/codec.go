package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// A record at rest. Numbers are little-endian; times are milliseconds.
//
//	head    version 1 byte, 1
//	        state   1 byte
//	        token   16 bytes
//	        after   6 bytes: how long the key outlives the lease, or the result
//	        checksum
//	        waited  1 byte: 1 when somebody waits for the claim to end
//	body    length 4 bytes; fence 8; attempt, vanished, generation uvarint each;
//	        fingerprint 32; scope 32; label; checksum
//	steps   length 4 bytes; steps; checksum
//	result  of a completed record: checksum; when it is over, 6 bytes, by an
//	        estimate of the server's clock; the result
//
// Scripts take the parts apart at fixed places, compare them, and put them
// together anew; they cannot compute a checksum. So each part has its own, made
// by the client that wrote it: a CRC-32C of the key and the part. The byte waited
// is a hint, and has none.
//
// The key's expiry is when nothing is kept any more. Everything else that has
// an end is told from it by after: whoever moves the expiry moves the lease.
const (
	version = 1

	sumAt    = 1 + 1 + 16 + 6
	sumLen   = 4
	waitedAt = sumAt + sumLen
	headLen  = waitedAt + 1
	overLen  = 6
	fixed    = 8 + 3 + 32 + 32 // the shortest content of a body

	// A state that is not known fails closed.
	stateHeld     = 1
	stateReleased = 2
	stateDone     = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of key and b, told apart by the kind of part that b is.
func checksum(key *ibid.Digest, kind byte, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(key[:], castagnoli), castagnoli, b) ^ uint32(kind)
}

// value is a record as it was read.
type value struct {
	record.Record        // without its times
	after         int64  // milliseconds
	over          int64  // milliseconds of the server's clock, nearly; of a completed record
	raw           []byte // head and body as read
	exact         bool   // left and now are known
	left          int64  // milliseconds until the key expires
	now           int64  // nanoseconds of the server's clock
}

// appendHead appends a head. Nobody waits yet.
func appendHead(dst []byte, key *ibid.Digest, state byte, token ibid.Token, after int64) []byte {
	start := len(dst)
	dst = append(dst, version, state)
	dst = append(dst, token[:]...)
	dst = append48(dst, after)
	dst = binary.LittleEndian.AppendUint32(dst, checksum(key, 'h', dst[start:]))
	return append(dst, 0)
}

// appendBody appends the body of r.
func appendBody(dst []byte, key *ibid.Digest, r *record.Record) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Fence))
	dst = binary.AppendUvarint(dst, uint64(r.Attempt))
	dst = binary.AppendUvarint(dst, uint64(r.Vanished))
	dst = binary.AppendUvarint(dst, uint64(r.Generation))
	dst = append(dst, r.Fingerprint[:]...)
	dst = append(dst, r.Scope[:]...)
	dst = append(dst, r.Label...)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return binary.LittleEndian.AppendUint32(dst, checksum(key, 'b', dst[start:]))
}

// appendSteps appends the step state.
func appendSteps(dst []byte, key *ibid.Digest, steps []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(steps)))
	dst = append(dst, steps...)
	return binary.LittleEndian.AppendUint32(dst, checksum(key, 's', dst[start:]))
}

// appendResult appends a result.
func appendResult(dst []byte, key *ibid.Digest, over int64, result []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append48(dst, over)
	dst = append(dst, result...)
	binary.LittleEndian.PutUint32(dst[start:], checksum(key, 'r', dst[start+sumLen:]))
	return dst
}

// decode reads a record that stands under key. Its label, steps and result are
// parts of b. ErrDamaged reports bytes that were not written under key. withResult
// is false where the result was left out.
func decode(key *ibid.Digest, b []byte, withResult bool) (v value, err error) {
	damaged := func(what string) (value, error) {
		return value{}, fmt.Errorf("%w: %s", ibid.ErrDamaged, what)
	}
	if len(b) < headLen {
		return damaged(fmt.Sprintf("%d bytes are no record", len(b)))
	}
	if b[0] != version {
		return damaged(fmt.Sprintf("record version %d, this program knows %d", b[0], version))
	}
	if checksum(key, 'h', b[:sumAt]) != binary.LittleEndian.Uint32(b[sumAt:]) {
		return damaged("checksum of the head")
	}
	state := b[1]
	if state < stateHeld || state > stateDone {
		return damaged(fmt.Sprintf("record state %d is not known", state))
	}
	copy(v.Token[:], b[2:])
	v.after = number48(b[18:])
	body, rest, ok := section(key, 'b', b[headLen:])
	if !ok || len(body) < fixed {
		return damaged("checksum of the body")
	}
	v.raw = b[:len(b)-len(rest)]
	steps, rest, ok := section(key, 's', rest)
	if !ok {
		return damaged("checksum of the steps")
	}
	v.Steps = steps
	v.Held, v.Done = state == stateHeld, state == stateDone
	switch {
	case v.Done && withResult:
		if len(rest) < sumLen+overLen || checksum(key, 'r', rest[sumLen:]) != binary.LittleEndian.Uint32(rest) {
			return damaged("checksum of the result")
		}
		v.over = number48(rest[sumLen:])
		v.Result = rest[sumLen+overLen:]
	case len(rest) > 0:
		return damaged("bytes after the record")
	}
	v.Fence = int64(binary.LittleEndian.Uint64(body))
	body = body[8:]
	for _, field := range [...]*int{&v.Attempt, &v.Vanished, &v.Generation} {
		n, size := binary.Uvarint(body)
		if size <= 0 {
			return damaged("record does not parse")
		}
		*field, body = int(n), body[size:]
	}
	if len(body) < len(v.Fingerprint)+len(v.Scope) {
		return damaged("record does not parse")
	}
	body = body[copy(v.Fingerprint[:], body):]
	v.Label = body[copy(v.Scope[:], body):]
	if state == stateReleased && v.Vanished == 0 && len(v.Steps) == 0 {
		v.Fingerprint = ibid.Fingerprint{}
	}
	return v, nil
}

func append48(dst []byte, n int64) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return binary.LittleEndian.AppendUint16(dst, uint16(n>>32))
}

func number48(b []byte) int64 {
	return int64(binary.LittleEndian.Uint32(b)) | int64(binary.LittleEndian.Uint16(b[4:]))<<32
}

// section takes a length, that many bytes and their checksum off the front of b.
func section(key *ibid.Digest, kind byte, b []byte) (content, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if int64(len(b)) < 4+n+sumLen {
		return nil, nil, false
	}
	end := 4 + int(n)
	sum := binary.LittleEndian.Uint32(b[end:])
	return b[4:end:end], b[end+sumLen:], checksum(key, kind, b[:end]) == sum
}

// prefix is the head and body without waited, as swap compares them.
func (v *value) prefix() string {
	if len(v.raw) < headLen {
		return string(v.raw)
	}
	return string(v.raw[:waitedAt]) + string(v.raw[headLen:])
}

// at returns the record as it is at now, when its key has left to live.
func (v *value) at(now, left int64) record.Record {
	r := v.Record
	r.Gone = now + left*int64(time.Millisecond)
	r.WindowEnd = r.Gone
	switch end := r.Gone - v.after*int64(time.Millisecond); {
	case v.Held:
		r.LeaseEnd = end
	case v.Done:
		r.WindowEnd = end
	}
	return r
}

// millis rounds up: nothing ends early.
func millis(d time.Duration) int64 {
	return int64(max(d, 0)+time.Millisecond-1) / int64(time.Millisecond)
}
