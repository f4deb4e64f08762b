package ibidhttp

import (
	"net/http"
	"strings"

	"github.com/ibid-go/ibid/ibidhttp/internal/answer"
)

// Which headers of a handler's answer are recorded, as a policy:
//
//   - Hop-by-hop headers, those that Connection names, Date and Content-Length
//     belong to one connection or one message: never. The server makes them anew.
//   - Cookies, credentials, and what stands for this one request (its id, its
//     trace, its rate limit) or for the server as a whole: not unless asked for.
//   - The middleware's own markers: never, and neither are they passed on live.
//   - Everything else is recorded.
//
// What is not recorded is still part of the first answer.

// perRequest are not recorded unless Options.KeepHeaders names them. A "*" at
// the end stands for any ending.
var perRequest = []string{
	"Set-Cookie", "Www-Authenticate", "Authentication-Info", "Proxy-Authentication-Info",
	"Access-Control-*", "Strict-Transport-Security", "Content-Security-Policy*", "Alt-Svc", "Server", "Via", "Age",
	"X-Request-Id", "Request-Id", "X-Correlation-Id", "Traceparent", "Tracestate",
	"Ratelimit*", "X-Ratelimit*",
}

type treatment uint8

const (
	record treatment = iota
	liveOnly
	remove
)

// headerRules decide over one header.
type headerRules struct {
	exact    map[string]treatment // canonical name → treatment
	prefixes []string             // canonical beginnings of names that are live only
}

func (o *settings) headerRules() (headerRules, error) {
	rules := headerRules{exact: make(map[string]treatment)}
	liveOnlyNames := func(field string, names []string) error {
		for _, name := range names {
			prefix, isPrefix := strings.CutSuffix(name, "*")
			if !validHeaderName(prefix) {
				return invalid("Options.%s: %q is no header name", field, name)
			}
			if isPrefix {
				rules.prefixes = append(rules.prefixes, http.CanonicalHeaderKey(prefix))
			} else {
				rules.exact[http.CanonicalHeaderKey(name)] = liveOnly
			}
		}
		return nil
	}
	if err := liveOnlyNames("perRequest", perRequest); err != nil {
		return rules, err
	}
	for _, name := range o.KeepHeaders {
		switch {
		case !validHeaderName(name):
			return rules, invalid("Options.KeepHeaders: %q is no header name", name)
		case answer.Forbidden(name):
			return rules, invalid("Options.KeepHeaders: %s belongs to one connection or one message and cannot be kept", name)
		}
		rules.exact[http.CanonicalHeaderKey(name)] = record
	}
	if err := liveOnlyNames("DropHeaders", o.DropHeaders); err != nil {
		return rules, err
	}
	for _, name := range [...]string{o.ReplayMarker, o.ExpiresHeader, o.DegradedMarker} {
		if name != "" {
			rules.exact[name] = remove
		}
	}
	return rules, nil
}

// of returns what happens to a header. Its name is spelled as the handler did.
func (h *headerRules) of(name string) treatment {
	name = http.CanonicalHeaderKey(name)
	if t, ok := h.exact[name]; ok {
		return t
	}
	if answer.Forbidden(name) {
		return liveOnly
	}
	for _, p := range h.prefixes {
		if strings.HasPrefix(name, p) {
			return liveOnly
		}
	}
	return record
}

// namedByConnection reports whether a Connection header makes name hop-by-hop.
func namedByConnection(connection []string, name string) bool {
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

func validHeaderName(name string) bool { return answer.ValidName(name) }
