package ibidhttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/ibid-go/ibid"
)

// Problem types: what the middleware answers itself, as the "type" member of
// application/problem+json (RFC 9457). They are stable, and need not be fetched.
const (
	typeBase = "https://ibid-go.github.io/problems/"

	TypeKeyMissing      = typeBase + "key-missing"         // 400: a key is required
	TypeKeyMalformed    = typeBase + "key-malformed"       // 400: the key cannot be used as given
	TypeScopeMissing    = typeBase + "scope-missing"       // 403: it cannot be told whose key it is
	TypeBodyTooLarge    = typeBase + "body-too-large"      // 413: the request body is over the limit
	TypeBodyUnreadable  = typeBase + "body-unreadable"     // 400: the request body ended early
	TypeBodyInvalid     = typeBase + "body-invalid"        // 400: the request body is not the JSON or multipart that it says
	TypeInProgress      = typeBase + "in-progress"         // 409: an earlier request with the key is still running
	TypeMismatch        = typeBase + "key-reused"          // 422: the key was used for another request
	TypeUnknown         = typeBase + "outcome-unknown"     // 409: it cannot be told whether the effect happened
	TypeNotKept         = typeBase + "result-not-kept"     // 409: done, but the answer was too large or was streamed
	TypeNotRecorded     = typeBase + "result-not-recorded" // 503: done, but not recorded yet
	TypeExpired         = typeBase + "key-expired"         // 410: done, and the answer is no longer kept
	TypeTooManyAttempts = typeBase + "too-many-attempts"   // 429: the key has had all its attempts
	TypeTooManyKeys     = typeBase + "too-many-keys"       // 429: the scope is over one of Limits
	TypeUnavailable     = typeBase + "store-unavailable"   // 503: nothing ran
	TypeDraining        = typeBase + "draining"            // 503: this process is being shut down, nothing ran
	TypeCancelled       = typeBase + "cancelled"           // 503: the request was cancelled while it waited, nothing ran
	TypeDamaged         = typeBase + "record-damaged"      // 500: what was recorded cannot be read, nothing ran
	TypeMisconfigured   = typeBase + "misconfigured"       // 500: the service cannot guard this request, nothing ran
)

// problem is one answer of the middleware's own. It holds nothing of what was
// recorded, save for the status and Location of a result that was not kept.
type problem struct {
	typ    string
	title  string
	detail string
	status int
	// retry is when to ask again; 0 says nothing about it.
	retry time.Duration
	// firstStatus and firstLocation are those of a result that was not kept.
	firstStatus   int
	firstLocation string
	// closing asks for the connection to be closed: what is left of the body is not read.
	closing bool
}

// problemOf says what an error of the engine means to the caller.
func (m *middleware) problemOf(err error) problem {
	var busy *ibid.InProgressError
	s := &m.o.Statuses
	switch {
	case errors.As(err, &busy):
		return problem{
			typ: TypeInProgress, title: "In progress", status: s.InProgress, retry: busy.RetryAfter,
			detail: "An earlier request with this key is still running. Ask again later with the same key.",
		}
	case errors.Is(err, ibid.ErrUnknown):
		return problem{
			typ: TypeUnknown, title: "Outcome unknown", status: s.Unknown,
			detail: "It cannot be told whether an earlier request with this key had its effect. Do not count it as failed, and do not repeat it under another key before that was found out.",
		}
	case errors.Is(err, ibid.ErrNotRecorded):
		return problem{
			typ: TypeNotRecorded, title: "Result not recorded yet", status: http.StatusServiceUnavailable, retry: m.retryAfter,
			detail: "The request was carried out, and its result could not be recorded yet. Ask again later with the same key.",
		}
	case errors.Is(err, ibid.ErrMismatch):
		return problem{
			typ: TypeMismatch, title: "Key used for another request", status: s.Mismatch,
			detail: "This key was used for a request with another method, path, query or content. Use a new key for a new request.",
		}
	case errors.Is(err, ibid.ErrNotKept):
		return problem{
			typ: TypeNotKept, title: "Result not kept", status: s.NotKept,
			detail: "The request was carried out. Its answer could not be kept, and it is not carried out again.",
		}
	case errors.Is(err, ibid.ErrExpired):
		return problem{
			typ: TypeExpired, title: "Key expired", status: s.Expired,
			detail: "A request with this key was carried out, and its answer is no longer kept. It is not carried out again. Use a new key for a new request.",
		}
	case errors.Is(err, ibid.ErrAttempts):
		return problem{
			typ: TypeTooManyAttempts, title: "Too many attempts", status: http.StatusTooManyRequests,
			detail: "Every attempt under this key has failed, and there are no more. Use a new key to begin anew.",
		}
	case errors.Is(err, ibid.ErrClaimLost):
		return problem{
			typ: TypeInProgress, title: "In progress", status: s.InProgress, retry: m.retryAfter,
			detail: "Another attempt under this key took over while this one ran. Ask again later with the same key.",
		}
	case errors.Is(err, ibid.ErrDamaged):
		return problem{
			typ: TypeDamaged, title: "Record damaged", status: http.StatusInternalServerError,
			detail: "What was recorded under this key cannot be read. Nothing was carried out. The operator of this service must look into it.",
		}
	case errors.Is(err, ibid.ErrDraining):
		return problem{
			typ: TypeDraining, title: "Shutting down", status: http.StatusServiceUnavailable, retry: m.retryAfter,
			detail: "This server is being shut down. Nothing was carried out. Ask again with the same key.",
		}
	case errors.Is(err, ibid.ErrUnavailable):
		return problem{
			typ: TypeUnavailable, title: "Store unavailable", status: http.StatusServiceUnavailable, retry: m.retryAfter,
			detail: "It cannot be told whether this key was used before. Nothing was carried out. Ask again later with the same key.",
		}
	case errors.Is(err, ibid.ErrInvalid):
		return problem{
			typ: TypeMisconfigured, title: "Cannot guard this request", status: http.StatusInternalServerError,
			detail: "This service is set up in a way that cannot keep its promise. Nothing was carried out.",
		}
	}
	return problem{
		typ: TypeCancelled, title: "Cancelled", status: http.StatusServiceUnavailable, retry: m.retryAfter,
		detail: "The request was cancelled while it waited. Nothing was carried out. Ask again with the same key.",
	}
}

// write answers p. What others have set in the header stays.
func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Type"] = problemType
	h["Cache-Control"] = noStore
	h["Link"] = append(h["Link"], "<"+p.typ+`>; rel="describedby"`)
	h.Del("Content-Length")
	if p.retry > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(seconds(p.retry), 10)}
	}
	if p.firstLocation != "" {
		h["Location"] = []string{p.firstLocation}
	}
	if p.closing {
		h["Connection"] = []string{"close"}
	}
	b := make([]byte, 0, 512)
	b = append(b, `{"type":`...)
	b = appendJSON(b, p.typ)
	b = append(b, `,"title":`...)
	b = appendJSON(b, p.title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.status), 10)
	b = append(b, `,"detail":`...)
	b = appendJSON(b, p.detail)
	if p.firstStatus > 0 {
		b = append(b, `,"first_status":`...)
		b = strconv.AppendInt(b, int64(p.firstStatus), 10)
	}
	if p.firstLocation != "" {
		b = append(b, `,"first_location":`...)
		b = appendJSON(b, p.firstLocation)
	}
	b = append(b, "}\n"...)
	w.WriteHeader(p.status)
	if r.Method != http.MethodHead {
		w.Write(b) // the caller is gone
	}
}

// Values that are the same in every answer. Nobody writes to them.
var (
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	isTrue      = []string{"true"}
)

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// appendJSON appends s as a JSON string. Bytes outside of ASCII become "?": they
// come from header values, which have no character set.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case c < ' ', c > '~':
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
