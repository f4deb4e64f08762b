package ibidhttp

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ibid-go/ibid"
)

// Options of the middleware. A nil *Options, and the zero value of every field,
// is the default. They are data: copy a preset and change it.
type Options struct {
	// Policy overrides the engine's policy, field by field: how long results
	// are replayed, what follows a vanished attempt, how long a request waits
	// for another one that is in progress (Wait), the constraint that guards the
	// handler while the store is unavailable (Guard), whether a panic frees the key
	// (ReleaseOnPanic). Detach is always set.
	Policy *ibid.Policy

	// Tx runs the handler in transactional mode: in a database transaction of this
	// store, which it finds in its context by the store's accessor. Answers of
	// 2xx and 3xx commit what the handler wrote; kept answers of 4xx and 5xx are recorded
	// and undo it; the others roll everything back. The handler runs again
	// after a serialization failure. Default nil: lease mode.
	Tx ibid.TxStore

	// Header is the request header that carries the key. Default
	// "Idempotency-Key". It is not read when Key is set.
	Header string
	// Key says where the key is, when that is not one header. Default:
	// FromHeader(Header).
	Key Carrier
	// Required refuses requests without a key (400). Default false: they run
	// unguarded.
	Required bool
	// MinLength and MaxLength bound the key, in bytes, after unquoting.
	// Defaults 1 and 255; MaxLength cannot be more than 255.
	MinLength, MaxLength int
	// KeyFormat refuses keys for which it returns an error, whose text is shown to
	// the caller. See UUID. Default nil: any.
	KeyFormat func(key string) error
	// KeySpace says which requests share keys. Default PerRoute.
	KeySpace KeySpace

	// Methods are the methods that are guarded. Default POST, PUT, PATCH.
	Methods []string
	// Guards says which requests are guarded, instead of Methods. Default nil.
	Guards func(*http.Request) bool

	// Fingerprint says what makes two requests the same. The zero value
	// compares method, path, query, Content-Type, Content-Encoding and the raw body.
	Fingerprint Fingerprint
	// MaxBody is the size, in bytes, above which a request body is refused
	// (413). The body is read whole before the key is claimed. Default 1 MiB;
	// negative is no limit.
	MaxBody int64

	// Kept says which answers are recorded; the others free the key. Default
	// KeepDefault.
	Kept func(status int, header http.Header) bool
	// MaxResult is the size, in bytes, of the largest body that is kept. A
	// larger one goes through a temporary file to the first caller; later ones
	// are told TypeNotKept, with its status and Location. Default 1 MiB;
	// negative is no limit. What the store can never keep is not kept either.
	MaxResult int64
	// SpoolDir is where temporary files are made. Default os.TempDir().
	SpoolDir string
	// KeepHeaders are recorded although they are not by default: "Set-Cookie",
	// say. Hop-by-hop headers, Date and Content-Length cannot be kept.
	KeepHeaders []string
	// DropHeaders are not recorded. A "*" at the end stands for any ending.
	DropHeaders []string
	// Streaming passes the handler's answer through as it is written, and records
	// only its status and Location. It gives up the promise that nothing is answered
	// before it is recorded. Default false: Flush has no effect until the
	// answer is recorded.
	Streaming bool
	// Probe is asked when a vanished attempt was taken over. Required when the
	// policy is ibid.Probe, and only then. With ibid.FoundDone, what it wrote
	// to w is the answer: the same as the handler would have written. The
	// effect is looked up by ibid.DerivedKey(r.Context(), label).
	Probe func(w http.ResponseWriter, r *http.Request) ibid.Found

	// ReplayMarker is the header, with value "true", that marks a replay.
	// Default "Idempotent-Replayed"; "-" is none.
	ReplayMarker string
	// ExpiresHeader says for how many seconds the answer will still be
	// replayed, on first answers and on replays. Default "Idempotency-Expires"; "-" is none.
	ExpiresHeader string
	// DegradedMarker names the guard that an answer relied on while the store
	// was unavailable. Default "Idempotency-Degraded"; "-" is none.
	DegradedMarker string

	// Statuses of the middleware's own answers.
	Statuses Statuses
	// Limits protect the store from floods of keys. Default: none.
	Limits Limits
}

// Statuses are the statuses of the middleware's own answers that conventions
// disagree on. Zero is the default named here.
type Statuses struct {
	InProgress   int // 409; 202 and 425 are in use too
	Mismatch     int // 422; Stripe answers 400
	Unknown      int // 409
	NotKept      int // 409
	Expired      int // 410
	MissingScope int // 403; 401 where something in front adds WWW-Authenticate
}

// Limits are kept per process and scope, in bounded memory. A request over a
// limit is answered 429 before any claim.
type Limits struct {
	// NewKeys is how many keys a scope may claim per Interval. Default 0: any
	// number.
	NewKeys int
	// Interval is what NewKeys counts over. Default 1 min.
	Interval time.Duration
	// InProgress is how many requests of a scope may run, or wait, at one
	// time. Default 0: any number.
	InProgress int
	// Attempts is how many attempts a key may have in all; it is counted in the store.
	// Default 0: what the policy says.
	Attempts int
}

// KeySpace says which requests share keys.
type KeySpace uint8

const (
	// PerRoute separates keys by method and path: the same key on another
	// route is another operation.
	PerRoute KeySpace = iota
	// KeyAlone separates keys by scope only: the same key on another route
	// is a mismatch.
	KeyAlone
)

// settings are Options, checked and with their defaults filled in.
type settings struct {
	Options
	policy  ibid.Policy
	printer printer
}

func (opts *Options) complete(engine *ibid.Engine, scope Scope) (*settings, error) {
	o := &settings{}
	if opts != nil {
		o.Options = *opts
	}
	switch {
	case engine == nil:
		return nil, invalid("New: engine is nil")
	case scope == nil:
		return nil, invalid("New: scope is nil: say whose key a request carries, or SharedByAll")
	}
	if o.Policy != nil {
		o.policy = *o.Policy
	}
	o.policy.Detach = true
	if o.Limits.Attempts > 0 {
		o.policy.MaxAttempts = o.Limits.Attempts
	}
	if o.Tx != nil && (o.Streaming || o.Probe != nil) {
		return nil, invalid("Options.Tx: a transaction that is run again cannot take back what was streamed, and leaves nothing to Probe")
	}
	if o.Probe != nil && o.policy.Takeover == 0 {
		o.policy.Takeover = ibid.Probe
	}
	switch err := engine.Check(&o.policy, o.Probe != nil); {
	case err == nil:
	case engine.Check(&o.policy, o.Probe == nil) == nil:
		return nil, invalid("Options.Probe: it is required when the takeover policy, the engine's own included, is Probe, and only then")
	default:
		return nil, invalid("Options.Policy: %v", err)
	}
	if err := o.completeKey(); err != nil {
		return nil, err
	}
	if err := o.completeAnswer(); err != nil {
		return nil, err
	}
	var err error
	o.printer, err = o.Fingerprint.printer()
	return o, err
}

func (o *settings) completeKey() error {
	or(&o.Header, "Idempotency-Key")
	or(&o.MinLength, 1)
	or(&o.MaxLength, maxKeyLength)
	or(&o.MaxBody, 1<<20)
	if o.Key.isZero() {
		if !validHeaderName(o.Header) {
			return invalid("Options.Header: %q is no header name", o.Header)
		}
		o.Key = FromHeader(o.Header)
	}
	switch {
	case o.MaxLength < 1 || o.MaxLength > maxKeyLength:
		return invalid("Options.MaxLength is %d: it must lie between 1 and %d", o.MaxLength, maxKeyLength)
	case o.MinLength < 1 || o.MinLength > o.MaxLength:
		return invalid("Options.MinLength is %d: it must lie between 1 and MaxLength (%d)", o.MinLength, o.MaxLength)
	case o.KeySpace > KeyAlone:
		return invalid("Options.KeySpace is %d: it must be PerRoute or KeyAlone", o.KeySpace)
	case o.Guards != nil && o.Methods != nil:
		return invalid("Options.Methods and Options.Guards are both set: one decides")
	}
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch}
	}
	for _, method := range o.Methods {
		if !validHeaderName(method) { // a method has the characters of a field name
			return invalid("Options.Methods: %q is no method", method)
		}
	}
	return nil
}

func (o *settings) completeAnswer() error {
	or(&o.MaxResult, 1<<20)
	if o.Kept == nil {
		o.Kept = KeepDefault
	}
	for _, f := range [...]struct {
		field string
		name  *string
		dflt  string
	}{
		{"ReplayMarker", &o.ReplayMarker, "Idempotent-Replayed"},
		{"ExpiresHeader", &o.ExpiresHeader, "Idempotency-Expires"},
		{"DegradedMarker", &o.DegradedMarker, "Idempotency-Degraded"},
	} {
		or(f.name, f.dflt)
		switch {
		case *f.name == "-":
			*f.name = ""
		case !validHeaderName(*f.name):
			return invalid("Options.%s: %q is no header name", f.field, *f.name)
		default:
			*f.name = http.CanonicalHeaderKey(*f.name)
		}
	}
	for _, f := range [...]struct {
		field  string
		status *int
		dflt   int
	}{
		{"InProgress", &o.Statuses.InProgress, http.StatusConflict},
		{"Mismatch", &o.Statuses.Mismatch, http.StatusUnprocessableEntity},
		{"Unknown", &o.Statuses.Unknown, http.StatusConflict},
		{"NotKept", &o.Statuses.NotKept, http.StatusConflict},
		{"Expired", &o.Statuses.Expired, http.StatusGone},
		{"MissingScope", &o.Statuses.MissingScope, http.StatusForbidden},
	} {
		or(f.status, f.dflt)
		accepted := f.field == "InProgress" && *f.status == http.StatusAccepted
		if !accepted && (*f.status < 400 || *f.status > 599) {
			return invalid("Options.Statuses.%s is %d: it must be an error status", f.field, *f.status)
		}
	}
	l := &o.Limits
	or(&l.Interval, time.Minute)
	if l.NewKeys < 0 || l.InProgress < 0 || l.Attempts < 0 || l.Interval < 0 {
		return invalid("Options.Limits: a limit is negative: 0 is none")
	}
	return nil
}

// maxKeyLength is the length, in bytes, above which no key is accepted.
const maxKeyLength = 255

func or[T comparable](field *T, dflt T) {
	var zero T
	if *field == zero {
		*field = dflt
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: ibidhttp: %s", ibid.ErrInvalid, fmt.Sprintf(format, args...))
}
