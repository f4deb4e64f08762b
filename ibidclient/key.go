package ibidclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// maxKey is the longest key that servers commonly take, in bytes.
const maxKey = 255

// WithKey returns a context whose requests are one operation, with the given
// key. It is for one operation: a second, different request with the same
// context is refused (ErrMismatch) before anything is sent. The same request
// may be sent again, at the same time or later, and is the same operation.
//
// Safe methods take no key.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, boundKey{}, &bound{key: key})
}

type boundKey struct{}

// bound is the key in a context, and what it was first used for.
type bound struct {
	key string

	mu          sync.Mutex
	fingerprint ibid.Fingerprint // of the first request; zero before it
	since       time.Time        // when that request began
	end         time.Time        // when the server said that it forgets the key
}

// use binds the key to a request, and reports ErrMismatch when it is bound to
// another one. It returns when the key was first used, and when the server
// said that it forgets the key.
func (b *bound) use(f ibid.Fingerprint, now time.Time) (since, end time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fingerprint == (ibid.Fingerprint{}) {
		b.fingerprint, b.since = f, now
	}
	if b.fingerprint != f {
		return since, end, fmt.Errorf("%w: the context of WithKey is used for two different requests", ibid.ErrMismatch)
	}
	return b.since, b.end, nil
}

// expires notes when the server forgets the key.
func (b *bound) expires(end time.Time) {
	b.mu.Lock()
	b.end = end
	b.mu.Unlock()
}

type labelKey struct{}

// WithLabel returns a context whose requests are listed by a Journal under
// label: the caller's own name for what it is doing.
func WithLabel(ctx context.Context, label string) context.Context {
	return context.WithValue(ctx, labelKey{}, label)
}

// KeyFor returns the key of the operation that parts name: an order, its
// number, its version. The same parts make the same key in every process,
// and different parts different keys: ("a", "bc") is not ("ab", "c"). It has the
// form of a UUID (version 8, RFC 9562 section 5.8) and hides its parts only from
// those who cannot guess them.
//
// Parts are strings, so that nothing slips in whose text differs from one
// attempt to the next: a pointer, a time, a float.
func KeyFor(parts ...string) string {
	d := sha256.Sum256([]byte(ibid.Join(append([]string{"ibid client key 1"}, parts...)...)))
	d[6] = d[6]&0x0f | 0x80
	d[8] = d[8]&0x3f | 0x80
	return formatUUID(d[:16])
}

// UUIDv7 mints a key: a UUID of the current time in milliseconds and 74 random bits
// (RFC 9562 section 5.7).
func UUIDv7() string {
	var u [16]byte
	rand.Read(u[6:]) // never fails
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint32(u[0:], uint32(ms>>16))
	binary.BigEndian.PutUint16(u[4:], uint16(ms))
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return formatUUID(u[:])
}

// Random128 mints a key of 128 random bits, in hexadecimal, which does not say when it was made.
func Random128() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	return hex.EncodeToString(u[:])
}

func formatUUID(u []byte) string {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// checkKey returns an error that says why key cannot be sent.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: ibidclient: the key is empty", ibid.ErrInvalid)
	case len(key) > maxKey:
		return fmt.Errorf("%w: ibidclient: the key has %d bytes, more than %d", ibid.ErrInvalid, len(key), maxKey)
	}
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' {
			return fmt.Errorf("%w: ibidclient: byte %d of the key is not printable ASCII", ibid.ErrInvalid, i)
		}
	}
	if key[0] == ' ' || key[len(key)-1] == ' ' {
		return fmt.Errorf("%w: ibidclient: the key begins or ends with a space", ibid.ErrInvalid)
	}
	return nil
}

// headerKey returns the key that a request carries already. A value in double
// quotes is a structured-field string, and the key is what it quotes.
func headerKey(h http.Header, name string) (key string, given bool, err error) {
	values := h[name]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return unquote(values[0]), true, nil
	}
	return "", true, fmt.Errorf("%w: ibidclient: the request has %d values of %s", ibid.ErrInvalid, len(values), name)
}

func unquote(v string) string {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return v
	}
	v = v[1 : len(v)-1]
	if strings.IndexByte(v, '\\') < 0 {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] == '\\' && i+1 < len(v) {
			i++
		}
		b.WriteByte(v[i])
	}
	return b.String()
}

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// headerValue returns key as it is sent. A key with a byte that would end or split a bare
// value is quoted in any case.
func headerValue(key string, quoted bool) string {
	if quoted || strings.ContainsAny(key, ` ",;\`) {
		return `"` + quoter.Replace(key) + `"`
	}
	return key
}
