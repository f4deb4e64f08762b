package ibidhttp

import "net/http"

// Scope names whose key a request carries: a tenant, a user, an API client. A
// record is visible only to the scope that made it. "" means that it cannot be
// told, and the request is refused (TypeScopeMissing). Where one server answers
// for several hosts, the host is part of the scope: it is no part of the key.
type Scope func(*http.Request) string

// ByPrincipal scopes keys by what principal says of the request, typically the
// user that an authenticating middleware put in its context.
func ByPrincipal(principal func(*http.Request) string) Scope {
	if principal == nil {
		panic(invalid("ByPrincipal: the function is nil"))
	}
	return principal
}

// ByHeader scopes keys by the value of a request header. It is safe only where
// something in front sets the header and removes what a client sent. A header
// that is absent, empty or given twice names nobody.
func ByHeader(name string) Scope {
	if !validHeaderName(name) {
		panic(invalid("ByHeader: %q is no header name", name))
	}
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) string {
		if v := r.Header[name]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
}

// SharedByAll gives all callers one scope: whoever knows a key gets its answer.
// It is for services with one caller, and for keys that are themselves secret.
func SharedByAll(*http.Request) string { return sharedScope }

// sharedScope is no value that a header can have.
const sharedScope = "\x00shared"
