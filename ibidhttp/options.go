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
	// negative is no limit. The engine's own limit for the whole record holds too.
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

// New returns a middleware that runs a handler once per key. Scope is required:
// ByPrincipal, ByHeader or SharedByAll. New panics when an option cannot be
// used as given, with an error that is ibid.ErrInvalid and names the field.
func New(engine *ibid.Engine, scope Scope, opts *Options) func(http.Handler) http.Handler {
	panic("TODO")
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: ibidhttp: %s", ibid.ErrInvalid, fmt.Sprintf(format, args...))
}
