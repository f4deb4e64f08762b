package ibidhttp

// IETF returns the conventions of draft-ietf-httpapi-idempotency-key-header,
// which are the defaults.
func IETF() *Options { return &Options{} }

// Stripe returns the conventions of Stripe's API.
func Stripe() *Options {
	return &Options{
		Methods:  []string{"POST"},
		KeySpace: KeyAlone,
		Kept:     keepStarted,
		Statuses: Statuses{Mismatch: 400},
	}
}

// PayPal returns the conventions of PayPal's APIs.
func PayPal() *Options {
	return &Options{Header: "PayPal-Request-Id", Methods: []string{"POST"}}
}

// Adyen returns the conventions of Adyen's APIs: the key is in a header or,
// failing that, it is the payment's own reference.
func Adyen() *Options {
	return &Options{
		Key:       FirstOf(FromHeader("Idempotency-Key"), FromBody("/reference")),
		Methods:   []string{"POST"},
		MaxLength: 64,
	}
}

var keepStarted = KeepDefault
