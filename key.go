package ibid

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
)

// Key names an operation.
type Key struct {
	// Scope keeps callers apart: a tenant, a principal, a consumer. A record is
	// visible only to the scope that made it. Required.
	Scope string
	// ID is the caller's own name for the operation. Required. Join builds one
	// of several parts.
	ID string
}

// check returns an error that names the missing field.
func (k Key) check() error {
	switch {
	case k.Scope == "":
		return fmt.Errorf("%w: Key.Scope is empty: name whose key it is", ErrInvalid)
	case k.ID == "":
		return fmt.Errorf("%w: Key.ID is empty: name the operation", ErrInvalid)
	}
	return nil
}

// Join makes one string of parts, such that different parts never make the same
// string: every part is preceded by its length.
//
//	Join("a", "bc") == "1:a2:bc"
func Join(parts ...string) string {
	n := 0
	for _, p := range parts {
		n += len(p) + 4
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = fmt.Appendf(b, "%d:", len(p))
		b = append(b, p...)
	}
	return string(b)
}

// Digest is a key, or a scope, as a store sees it: 32 bytes that say nothing of
// what they stand for when the engine has a secret.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Fold returns 32 bits of the digest, to combine with the checksum of what is
// kept under it: bytes found under another key are then damaged.
func (d Digest) Fold() (n uint32) {
	for i := 0; i < len(d); i += 4 {
		n ^= binary.BigEndian.Uint32(d[i:])
	}
	return n
}

// ParseDigest reads what String wrote.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("%w: digest %q is not 64 hexadecimal digits", ErrInvalid, s)
	}
	return Digest(b), nil
}

// Purposes keep digests of different things apart, as the first part of what
// is hashed.
const (
	purposeKey         = "ibid key 1"
	purposeScope       = "ibid scope 1"
	purposeFingerprint = "ibid fingerprint 1"
	purposeDerived     = "ibid derived 1"
	purposeCheck       = "ibid check 1"
)

// digester digests lists of parts with HMAC-SHA-256 when it has a secret, and
// with SHA-256 otherwise. Its hashes are pooled: keying an HMAC costs more than
// the digest of a short key.
type digester struct {
	secret []byte
	pool   sync.Pool // of *hasher
}

// hasher is a hash with room for a short message and its digest, so that
// neither escapes to the heap.
type hasher struct {
	hash.Hash
	buf []byte
	out []byte
}

// sum hashes purpose and parts, each preceded by its length in eight bytes: no
// two lists of parts are hashed alike.
func (d *digester) sum(purpose string, parts ...string) Digest {
	h := d.get()
	h.add(purpose)
	for _, p := range parts {
		h.add(p)
	}
	h.Write(h.buf)
	return d.put(h)
}

// sumBytes is sum for parts that may be long: they are not copied.
func (d *digester) sumBytes(purpose string, parts ...[]byte) Digest {
	h := d.get()
	h.add(purpose)
	for _, p := range parts {
		h.buf = binary.BigEndian.AppendUint64(h.buf, uint64(len(p)))
		h.Write(h.buf)
		h.Write(p)
		h.buf = h.buf[:0]
	}
	h.Write(h.buf)
	return d.put(h)
}

func (h *hasher) add(part string) {
	h.buf = binary.BigEndian.AppendUint64(h.buf, uint64(len(part)))
	h.buf = append(h.buf, part...)
}

func (d *digester) get() *hasher {
	if h, ok := d.pool.Get().(*hasher); ok {
		return h
	}
	h := &hasher{out: make([]byte, 0, sha256.Size)}
	if len(d.secret) > 0 {
		h.Hash = hmac.New(sha256.New, d.secret)
	} else {
		h.Hash = sha256.New()
	}
	return h
}

func (d *digester) put(h *hasher) Digest {
	out := Digest(h.Sum(h.out))
	h.Reset()
	h.buf = h.buf[:0]
	d.pool.Put(h)
	return out
}
