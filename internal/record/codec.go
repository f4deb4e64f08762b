package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ibid-go/ibid"
)

// A record at rest, all numbers little-endian or uvarint:
//
//	version  1 byte, 1
//	flags    1 byte
//	token    16 bytes
//	scope    32 bytes
//	print    32 bytes, if flagHasPrint
//	fence, attempt, vanished, generation, gone            uvarint each
//	gone−lease end, if held; gone−window end, if done      uvarint
//	label, steps: length and bytes, if flagged
//	result   up to the checksum, if done
//	checksum CRC-32C of all of the above, combined with the key, 4 bytes
//
// The checksum covers the key, so that a record found under another key is
// damaged too. A version that is not known, or a flag, fails closed: an older
// program must not run work again because it cannot read what a newer one wrote.
const version = 1

const (
	flagHeld = 1 << iota
	flagDone
	flagHasPrint
	flagHasLabel
	flagHasSteps
	flagsKnown = 1<<iota - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends the bytes of r, as kept under key, to dst.
func (r *Record) Append(dst []byte, key ibid.Digest) []byte {
	start := len(dst)
	var flags byte
	set := func(on bool, flag byte) {
		if on {
			flags |= flag
		}
	}
	set(r.Held, flagHeld)
	set(r.Done, flagDone)
	set(r.Fingerprint != ibid.Fingerprint{}, flagHasPrint)
	set(len(r.Label) > 0, flagHasLabel)
	set(len(r.Steps) > 0, flagHasSteps)

	dst = append(dst, version, flags)
	dst = append(dst, r.Token[:]...)
	dst = append(dst, r.Scope[:]...)
	if flags&flagHasPrint != 0 {
		dst = append(dst, r.Fingerprint[:]...)
	}
	for _, n := range [...]uint64{uint64(r.Fence), uint64(r.Attempt), uint64(r.Vanished), uint64(r.Generation), uint64(r.Gone)} {
		dst = binary.AppendUvarint(dst, n)
	}
	if r.Held {
		dst = binary.AppendUvarint(dst, uint64(r.Gone-r.LeaseEnd))
	}
	if r.Done {
		dst = binary.AppendUvarint(dst, uint64(r.Gone-r.WindowEnd))
	}
	if flags&flagHasLabel != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(r.Label)))
		dst = append(dst, r.Label...)
	}
	if flags&flagHasSteps != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(r.Steps)))
		dst = append(dst, r.Steps...)
	}
	if r.Done {
		dst = append(dst, r.Result...)
	}
	return binary.LittleEndian.AppendUint32(dst, checksum(key, dst[start:]))
}

func checksum(key ibid.Digest, b []byte) uint32 {
	return crc32.Checksum(b, castagnoli) ^ key.Fold()
}

// Decode reads what Append wrote. The record's label, steps and result are
// parts of b. ErrDamaged reports bytes that Append has not written under key.
func Decode(key ibid.Digest, b []byte) (r Record, err error) {
	if len(b) < 6 {
		return r, fmt.Errorf("%w: %d bytes are no record", ibid.ErrDamaged, len(b))
	}
	if b[0] != version {
		return r, fmt.Errorf("%w: record version %d, this program knows %d", ibid.ErrDamaged, b[0], version)
	}
	body := b[:len(b)-4]
	if checksum(key, body) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return r, fmt.Errorf("%w: checksum", ibid.ErrDamaged)
	}
	flags := b[1]
	if flags&^byte(flagsKnown) != 0 {
		return r, fmt.Errorf("%w: record flags %#x, this program knows %#x", ibid.ErrDamaged, flags, flagsKnown)
	}
	d := reader{body[2:], true}
	r.Held, r.Done = flags&flagHeld != 0, flags&flagDone != 0
	copy(r.Token[:], d.take(len(r.Token)))
	copy(r.Scope[:], d.take(len(r.Scope)))
	if flags&flagHasPrint != 0 {
		copy(r.Fingerprint[:], d.take(len(r.Fingerprint)))
	}
	r.Fence = int64(d.number())
	r.Attempt = int(d.number())
	r.Vanished = int(d.number())
	r.Generation = int(d.number())
	r.Gone = int64(d.number())
	r.WindowEnd = r.Gone
	if r.Held {
		r.LeaseEnd = r.Gone - int64(d.number())
	}
	if r.Done {
		r.WindowEnd = r.Gone - int64(d.number())
	}
	if flags&flagHasLabel != 0 {
		r.Label = d.take(int(d.number()))
	}
	if flags&flagHasSteps != 0 {
		r.Steps = d.take(int(d.number()))
	}
	if r.Done {
		r.Result = d.take(len(d.rest))
	}
	if !d.ok || len(d.rest) > 0 || r.Held && r.Done {
		return Record{}, fmt.Errorf("%w: record does not parse", ibid.ErrDamaged)
	}
	return r, nil
}

// reader takes fields off the front of rest; ok becomes false at the first
// that is not there.
type reader struct {
	rest []byte
	ok   bool
}

func (d *reader) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.ok, d.rest = false, nil
		return nil
	}
	p := d.rest[:n:n]
	d.rest = d.rest[n:]
	return p
}

func (d *reader) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.ok, d.rest = false, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}
