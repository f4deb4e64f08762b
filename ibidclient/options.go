package ibidclient

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ibid-go/ibid"
)

// Options of a Transport. The zero value of every field is the default. They
// are data: copy a preset and change it.
type Options struct {
	// Base sends the attempts. Default http.DefaultTransport.
	Base http.RoundTripper

	// Header carries the key. Default "Idempotency-Key".
	Header string
	// Quote sends the key as a structured-field string, in double quotes, as
	// the draft of the IETF has it. Default false: bare, as most servers have it, save for
	// keys with a space, a quote, a comma, a semicolon or a backslash.
	Quote bool
	// Methods are those for which a key is minted when none is given. Default
	// (nil) POST and PATCH; an empty list mints none.
	Methods []string
	// Mint makes a key. Default UUIDv7. It is called once per operation, never for a retry.
	Mint func() string
	// Journal keeps every key before its first attempt. Default nil: none.
	Journal Journal

	// ReplayMarker is the response header whose value "true" marks a replay.
	// Default "Idempotent-Replayed"; "-" is none.
	ReplayMarker string
	// ExpiresHeader is the response header that says for how many seconds the
	// key is still known. Default "Idempotency-Expires"; "-" is none.
	ExpiresHeader string
	// Window is how long the server knows a key, where ExpiresHeader has not
	// said so, counted from the start of the first attempt. The last
	// twentieth of it, at most 30 s, is not used. Default 24 h; negative is no end.
	Window time.Duration

	// Attempts bounds the attempts of an operation, the first one included.
	// Default 5; negative is no bound.
	Attempts int
	// AttemptTimeout bounds one attempt, from sending to the last byte of an
	// answer that is read ahead (MaxAnswer), or to the header of a longer one.
	// Default 30 s; negative is no bound.
	AttemptTimeout time.Duration
	// TotalTime bounds the attempts and waits of an operation together: none is
	// begun that could not end within it. Default 2 min; negative is no bound.
	TotalTime time.Duration
	// BaseDelay and MaxDelay shape the wait before a retry where the server
	// suggests none: a random time between 0 and BaseDelay doubled for every
	// earlier retry, at most MaxDelay. Defaults 200 ms and 10 s; a negative BaseDelay is no wait.
	BaseDelay, MaxDelay time.Duration
	// Budget bounds the retries of all operations of the transport together.
	Budget Budget
	// Retry overrides the rules for one response: retry is what the rules say,
	// and what it returns is done, within the bounds. It must not read the body. Default nil.
	Retry func(resp *http.Response, retry bool) bool

	// MaxBody is the size, in bytes, up to which a request body that has no
	// GetBody is held in memory for retries. A longer one is sent once, with
	// ErrSentOnce when that fails. Default 1 MiB; negative holds none.
	MaxBody int64
	// MaxAnswer is the size, in bytes, up to which the body of an answer to a
	// request with a key is read before the answer is returned, so that one that breaks
	// off is fetched again. Answers that do not announce their length are never read ahead.
	// Default 1 MiB; negative reads none.
	MaxAnswer int64

	// Observe are called with every event, in order, on the goroutine of the
	// request: they must be quick, and safe for concurrent use. See LogTo.
	Observe []func(context.Context, Event)
}

// Budget bounds the retries of all operations of a transport together, so that
// an outage is not made worse by retries. A retry takes a token; without one it
// is not made.
type Budget struct {
	// Ratio is how many tokens every operation adds. Default 0.2: at most one
	// retry for five operations in the long run. Negative adds none.
	Ratio float64
	// PerSecond is how many tokens every second adds, for clients with little
	// traffic. Default 10; negative adds none.
	PerSecond float64
	// Reserve is how many tokens there are at first, and at most. Default 100;
	// negative switches the budget off: retries are then bounded per operation only.
	Reserve int
}

// Defaults of Options.
const (
	DefaultHeader         = "Idempotency-Key"
	DefaultReplayMarker   = "Idempotent-Replayed"
	DefaultExpiresHeader  = "Idempotency-Expires"
	DefaultWindow         = 24 * time.Hour
	DefaultAttempts       = 5
	DefaultAttemptTimeout = 30 * time.Second
	DefaultTotalTime      = 2 * time.Minute
	DefaultBaseDelay      = 200 * time.Millisecond
	DefaultMaxDelay       = 10 * time.Second
	DefaultMaxBody        = 1 << 20
	DefaultMaxAnswer      = 1 << 20
)

// complete returns a checked copy of o with its defaults filled in.
func (o Options) complete() (Options, error) {
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	if o.Mint == nil {
		o.Mint = UUIDv7
	}
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	pick(&o.Header, DefaultHeader)
	pick(&o.ReplayMarker, DefaultReplayMarker)
	pick(&o.ExpiresHeader, DefaultExpiresHeader)
	pick(&o.Window, DefaultWindow)
	pick(&o.Attempts, DefaultAttempts)
	pick(&o.AttemptTimeout, DefaultAttemptTimeout)
	pick(&o.TotalTime, DefaultTotalTime)
	pick(&o.BaseDelay, DefaultBaseDelay)
	pick(&o.MaxDelay, DefaultMaxDelay)
	pick(&o.MaxBody, DefaultMaxBody)
	pick(&o.MaxAnswer, DefaultMaxAnswer)
	pick(&o.Budget.Ratio, 0.2)
	pick(&o.Budget.PerSecond, 10)
	pick(&o.Budget.Reserve, 100)
	if !validName(o.Header) {
		return o, fmt.Errorf("%w: ibidclient: Options.Header %q is no header name", ibid.ErrInvalid, o.Header)
	}
	o.Header = http.CanonicalHeaderKey(o.Header)
	for _, h := range []*string{&o.ReplayMarker, &o.ExpiresHeader} {
		if *h == "-" {
			*h = ""
		} else {
			*h = http.CanonicalHeaderKey(*h)
		}
	}
	return o, nil
}

func pick[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// validName reports whether s is a token (RFC 9110, section 5.6.2).
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '!' || c == '#' || c == '$' || c == '%' || c == '&' || c == '\'' || c == '*' || c == '+':
		case c == '-' || c == '.' || c == '^' || c == '_' || c == '`' || c == '|' || c == '~':
		default:
			return false
		}
	}
	return s != ""
}
