package ibidhttp

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
