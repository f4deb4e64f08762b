// Package answer holds the bytes of a recorded HTTP answer.
//
// They are checked in full when they are read: a store that was tampered with,
// or damaged, must not put a header on the wire that a handler could not have
// written.
package answer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// An answer at rest; numbers are uvarints:
//
//	version  1 byte, 1
//	flags    1 byte
//	status, number of header fields, number of trailer fields
//	length of name and of value, per field
//	names and values, in the same order, headers first
//	body     the rest
//
// A version or a flag that is not known fails closed.
const version = 1

const (
	flagNotKept = 1 << iota
	flagNoType
	flagsKnown = 1<<iota - 1
)

// ErrDamaged reports bytes that Append has not written.
var ErrDamaged = errors.New("recorded answer does not parse")

// Field is one header or trailer line. Fields of one name are adjacent and keep
// their order.
type Field struct {
	Name, Value string
	// Trailer is set on a field that follows the body.
	Trailer bool
	// Live is set on a field that the first answer has and a replay has not. It
	// is not recorded.
	Live bool
}

// Answer is what a handler finished with.
type Answer struct {
	Status int
	// NotKept is set when the body, and all headers but Location, were too
	// large or of a kind to be recorded.
	NotKept bool
	// NoType is set when the handler asked for no Content-Type at all.
	NoType bool
	// Fields are the headers, and after them the trailers.
	Fields []Field
	Body   []byte
}

// Append appends the bytes of a, without fields that are Live, to b.
func (a *Answer) Append(b []byte) []byte {
	headers, trailers := 0, 0
	size := 2 + 3*binary.MaxVarintLen16 + len(a.Body)
	for i := range a.Fields {
		f := &a.Fields[i]
		switch {
		case f.Live:
			continue
		case f.Trailer:
			trailers++
		default:
			headers++
		}
		size += uvarintLen(len(f.Name)) + uvarintLen(len(f.Value)) + len(f.Name) + len(f.Value)
	}
	var flags byte
	if a.NotKept {
		flags |= flagNotKept
	}
	if a.NoType {
		flags |= flagNoType
	}
	b = append(slices.Grow(b, size), version, flags)
	b = binary.AppendUvarint(b, uint64(a.Status))
	b = binary.AppendUvarint(b, uint64(headers))
	b = binary.AppendUvarint(b, uint64(trailers))
	for _, trailer := range [...]bool{false, true} {
		for i := range a.Fields {
			if f := &a.Fields[i]; !f.Live && f.Trailer == trailer {
				b = binary.AppendUvarint(b, uint64(len(f.Name)))
				b = binary.AppendUvarint(b, uint64(len(f.Value)))
			}
		}
	}
	for _, trailer := range [...]bool{false, true} {
		for i := range a.Fields {
			if f := &a.Fields[i]; !f.Live && f.Trailer == trailer {
				b = append(b, f.Name...)
				b = append(b, f.Value...)
			}
		}
	}
	return append(b, a.Body...)
}

func uvarintLen(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// Decode reads what Append wrote. It appends the fields to a.Fields[:0]; the body is a
// part of b. ErrDamaged reports what no handler can have answered.
func (a *Answer) Decode(b []byte) error {
	*a = Answer{Fields: a.Fields[:0]}
	if len(b) < 5 {
		return fmt.Errorf("%w: %d bytes", ErrDamaged, len(b))
	}
	if b[0] != version {
		return fmt.Errorf("%w: version %d, this program knows %d", ErrDamaged, b[0], version)
	}
	flags := b[1]
	if flags&^byte(flagsKnown) != 0 {
		return fmt.Errorf("%w: flags %#x, this program knows %#x", ErrDamaged, flags, flagsKnown)
	}
	a.NotKept, a.NoType = flags&flagNotKept != 0, flags&flagNoType != 0
	r := reader{b[2:], true}
	status, headers, trailers := r.number(), r.number(), r.number()
	if !r.ok || status < 200 || status > 999 || headers+trailers > len(r.rest)/2 {
		return fmt.Errorf("%w: status or counts", ErrDamaged)
	}
	a.Status = status
	lengths, total := r, 0
	for range 2 * (headers + trailers) {
		n := r.number()
		if total += n; !r.ok || total > len(r.rest) {
			return fmt.Errorf("%w: field lengths", ErrDamaged)
		}
	}
	text := string(r.rest[:total])
	a.Body = r.rest[total:]
	for i := range headers + trailers {
		name, value := lengths.number(), lengths.number()
		f := Field{Name: text[:name], Value: text[name : name+value], Trailer: i >= headers}
		text = text[name+value:]
		if !ValidName(f.Name) || !ValidValue(f.Value) || Forbidden(f.Name) {
			return fmt.Errorf("%w: header field %d", ErrDamaged, i)
		}
		a.Fields = append(a.Fields, f)
	}
	return nil
}

// reader takes numbers off the front of rest; ok becomes false at the first
// that is not there or out of all proportion.
type reader struct {
	rest []byte
	ok   bool
}

func (r *reader) number() int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<31-1 {
		r.ok, r.rest = false, nil
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

// Forbidden reports whether a field of this name is never recorded: it belongs to
// one connection or one message, not to the answer (RFC 9110 section 7.6.1).
func Forbidden(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Date":
		return true
	}
	return false
}

// ValidName reports whether name is a field name (RFC 9110 section 5.1).
func ValidName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// ValidValue reports whether value is a field value without white space at its
// ends (RFC 9110 section 5.5).
func ValidValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return value == strings.Trim(value, " \t")
}

// CleanValue returns value as the server would send it: bytes that no value may have
// become spaces, and those at its ends are gone.
func CleanValue(value string) string {
	if ValidValue(value) {
		return value
	}
	b := []byte(value)
	for i, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[i] = ' '
		}
	}
	return strings.Trim(string(b), " \t")
}
