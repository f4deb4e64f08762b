package ibidhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp/internal/jsonbody"
)

// Carrier says where a request carries its key. The zero Carrier is the header
// named by Options.Header.
type Carrier struct {
	header  string
	pointer *jsonbody.Pointer
	fn      func(r *http.Request, body []byte) (string, error)
	any     []Carrier
}

// FromHeader reads the key from a header, as ParseKey does. A second header
// line is refused (400).
func FromHeader(name string) Carrier {
	if !validHeaderName(name) {
		panic(invalid("FromHeader: %q is no header name", name))
	}
	return Carrier{header: http.CanonicalHeaderKey(name)}
}

// FromBody reads the key from a JSON body: the string at a JSON pointer
// (RFC 6901), "/reference" say. A body whose Content-Type is not JSON, or that
// has no such member, carries no key; another type than string is refused (400).
func FromBody(pointer string) Carrier {
	p, err := jsonbody.ParsePointer(pointer)
	if err != nil {
		panic(invalid("FromBody: %v", err))
	}
	return Carrier{pointer: &p}
}

// FromFunc makes the key of the request itself: a natural key, such as an order
// number. "" is no key; the text of an error is shown to the caller (400). The
// function does not read r.Body, and does not keep body.
func FromFunc(key func(r *http.Request, body []byte) (string, error)) Carrier {
	if key == nil {
		panic(invalid("FromFunc: the function is nil"))
	}
	return Carrier{fn: key}
}

// FirstOf reads the key from the first of several places that has one. The
// same text in a header, in a body and made by a function is three keys.
func FirstOf(carriers ...Carrier) Carrier {
	if len(carriers) == 0 {
		panic(invalid("FirstOf: no places"))
	}
	return Carrier{any: carriers}
}

// where says where a caller is to put the key, for a text.
func (c *Carrier) where() string {
	if c.header != "" {
		return " in the header " + c.header
	}
	return ""
}

func (c *Carrier) isZero() bool {
	return c.header == "" && c.pointer == nil && c.fn == nil && c.any == nil
}

// needsBody reports whether the key can only be read after the body.
func (c *Carrier) needsBody() bool { return c.header == "" }

// source is where a key was found, as a part of its ID. That of a header is "".
type source string

const (
	sourceHeader source = ""
	sourceBody   source = "body"
	sourceFunc   source = "func"
)

// read returns the key and where it was found; "" when there is none.
func (c *Carrier) read(r *http.Request, body []byte) (string, source, error) {
	switch {
	case c.header != "":
		key, err := headerKey(r.Header[c.header])
		return key, sourceHeader, err
	case c.pointer != nil:
		if !isJSON(r.Header.Get("Content-Type")) {
			return "", sourceBody, nil
		}
		key, found, err := jsonbody.String(body, *c.pointer)
		switch {
		case err != nil:
			return "", sourceBody, err
		case found && key == "":
			return "", sourceBody, errKeyEmpty
		}
		return key, sourceBody, nil
	case c.fn != nil:
		key, err := c.fn(r, body)
		return key, sourceFunc, err
	}
	for i := range c.any {
		if key, from, err := c.any[i].read(r, body); key != "" || err != nil {
			return key, from, err
		}
	}
	return "", sourceHeader, nil
}

// What is wrong with a key. The texts are shown to callers.
var (
	errKeyEmpty    = errors.New("the key is empty")
	errKeyTwice    = errors.New("there is more than one key")
	errKeyQuote    = errors.New(`the quoted key does not end with its only unescaped quote, or escapes something other than \" and \\`)
	errKeyByte     = errors.New("the key has a byte outside of printable ASCII")
	errKeyBare     = errors.New(`a key with a space or one of " , ; \ must be quoted`)
	errKeyTooLong  = errors.New("the key is too long")
	errKeyTooShort = errors.New("the key is too short")
	errNotUUID     = errors.New("the key must be a UUID")
)

func headerKey(lines []string) (string, error) {
	switch len(lines) {
	case 0:
		return "", nil
	case 1:
		return ParseKey(lines[0])
	}
	return "", errKeyTwice
}

// ParseKey reads the value of a key header. It is either a structured-field
// string (RFC 9651 section 3.3.3) without parameters, `"a\"b"`, or the bare key, `a-b`.
//
// The key is what the string stands for, and the bare form stands for itself:
// `"k"` and `k` are the same key, and no other two values are, save for escapes
// and white space around them. The bare form has no spaces and none of " , ; \
// so that two keys joined by a proxy are never taken for one.
func ParseKey(value string) (string, error) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return "", errKeyEmpty
	}
	if value[0] != '"' {
		for i := range len(value) {
			switch c := value[i]; {
			case c < ' ' || c > '~':
				return "", errKeyByte
			case c == ' ', c == '"', c == ',', c == ';', c == '\\':
				return "", errKeyBare
			}
		}
		return value, nil
	}
	escaped := false
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c < ' ' || c > '~':
			return "", errKeyByte
		case c == '\\':
			if i++; i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", errKeyQuote
			}
			escaped = true
		case c == '"':
			key := value[1:i]
			switch {
			case i != len(value)-1:
				return "", errKeyQuote
			case key == "":
				return "", errKeyEmpty
			case escaped:
				key = unescape(key)
			}
			return key, nil
		}
	}
	return "", errKeyQuote
}

func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// checkKey checks a key from any source against the options.
func (o *settings) checkKey(key string) error {
	switch {
	case len(key) > o.MaxLength:
		return fmt.Errorf("%w: %d bytes, at most %d are accepted", errKeyTooLong, len(key), o.MaxLength)
	case len(key) < o.MinLength:
		return fmt.Errorf("%w: %d bytes, at least %d are required", errKeyTooShort, len(key), o.MinLength)
	}
	for i := range len(key) {
		if c := key[i]; c < ' ' || c == 0x7f {
			return errKeyByte
		}
	}
	if o.KeyFormat != nil {
		return o.KeyFormat(key)
	}
	return nil
}

// UUID is a KeyFormat: 36 characters in the form of RFC 9562, any version,
// either case. Keys that differ in case only are different keys.
func UUID(key string) error {
	if len(key) != 36 {
		return errNotUUID
	}
	for i := range len(key) {
		c := key[i]
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash && c == '-', !dash && isHex(c):
		default:
			return errNotUUID
		}
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// KeyID is the ID of the key of a request with key in its header, under
// PerRoute, for those who look its record up: an operator, a test. Path is
// unescaped, as in r.URL.Path.
func KeyID(method, path, key string) string { return ibid.Join(method, path, key) }
