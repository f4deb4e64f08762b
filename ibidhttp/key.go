package ibidhttp

import "net/http"

// Carrier says where a request carries its key. The zero Carrier is the header
// named by Options.Header.
type Carrier struct {
	header  string
	pointer string
	fn      func(r *http.Request, body []byte) (string, error)
	any     []Carrier
}

// FromHeader reads the key from a header.
func FromHeader(name string) Carrier {
	if !validName(name) {
		panic(invalid("FromHeader: %q is no header name", name))
	}
	return Carrier{header: http.CanonicalHeaderKey(name)}
}

// FromBody reads the key from a JSON body: the string at a JSON pointer
// (RFC 6901), "/reference" say. A body that is not JSON, or has no such member,
// carries no key.
func FromBody(pointer string) Carrier { return Carrier{pointer: pointer} }

// FromFunc makes the key of the request itself: a natural key, such as an order
// number. "" is no key; the text of an error is shown to the caller (400).
func FromFunc(key func(r *http.Request, body []byte) (string, error)) Carrier {
	if key == nil {
		panic(invalid("FromFunc: the function is nil"))
	}
	return Carrier{fn: key}
}

// FirstOf reads the key from the first of several places that has one. The
// same text in two places is two keys.
func FirstOf(carriers ...Carrier) Carrier { return Carrier{any: carriers} }

// UUID is a KeyFormat: 36 characters in the form of RFC 9562, any version,
// either case. Keys that differ in case only are different keys.
func UUID(key string) error { panic("TODO") }

// KeyID is the ID of the key that a request under PerRoute has, for those who
// look its record up: an operator, a test.
func KeyID(method, path, key string) string { panic("TODO") }

func validName(s string) bool { return s != "" }
