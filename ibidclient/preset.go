package ibidclient

import (
	"net/http"
	"time"
)

// IETF returns the conventions of draft-ietf-httpapi-idempotency-key-header:
// the key is a structured-field string.
func IETF() *Options { return &Options{Quote: true} }

// Stripe returns the conventions of Stripe's API: keys for POST, known for 24 hours.
func Stripe() *Options {
	return &Options{Methods: []string{http.MethodPost}, Window: 24 * time.Hour}
}

// PayPal returns the conventions of PayPal's APIs: their own header, no replay
// marker, and the shortest window that they name, 6 hours.
func PayPal() *Options {
	return &Options{
		Header: "PayPal-Request-Id", Methods: []string{http.MethodPost},
		ReplayMarker: "-", Window: 6 * time.Hour,
	}
}

// Adyen returns the conventions of Adyen's APIs: keys of at most 64 characters,
// which minted keys and those of KeyFor are, known for a week or more; no replay marker.
func Adyen() *Options {
	return &Options{Methods: []string{http.MethodPost}, ReplayMarker: "-", Window: 7 * 24 * time.Hour}
}
