package ibidhttp

import (
	"net/http"
	"time"

	"github.com/ibid-go/ibid"
)

// Presets bundle conventions as data. Each call returns Options of the caller's
// own, to be changed at will.

// IETF returns the conventions of draft-ietf-httpapi-idempotency-key-header,
// which are the defaults.
func IETF() *Options { return &Options{} }

// Stripe returns the conventions of Stripe's API: POST only, keys that are one
// space per account, server errors kept and replayed, 400 for a key that was used
// for another request.
func Stripe() *Options {
	return &Options{
		Methods:  []string{http.MethodPost},
		KeySpace: KeyAlone,
		Kept:     keepStarted,
		Statuses: Statuses{Mismatch: http.StatusBadRequest},
	}
}

// PayPal returns the conventions of PayPal's APIs: POST only, and the
// PayPal-Request-Id header. Server errors may be retried with the same id, and
// free it.
func PayPal() *Options {
	return &Options{Header: "PayPal-Request-Id", Methods: []string{http.MethodPost}}
}

// Adyen returns the conventions of Adyen's APIs: POST only, keys of up to 64
// characters that are one space per account and are kept for 31 days. A
// request without the header has the payment's own reference, a member of its
// body, as its key.
func Adyen() *Options {
	return &Options{
		Key:       FirstOf(FromHeader("Idempotency-Key"), FromBody("/reference")),
		KeySpace:  KeyAlone,
		Methods:   []string{http.MethodPost},
		MaxLength: 64,
		Policy:    &ibid.Policy{Retain: 31 * 24 * time.Hour},
	}
}
