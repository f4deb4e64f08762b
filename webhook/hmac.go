package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is how far a timestamp may be from now.
const DefaultTolerance = 5 * time.Minute

// Hash is what an HMAC is made with.
type Hash uint8

// The hashes. SHA1 is there for providers that have nothing else.
const (
	SHA256 Hash = iota
	SHA512
	SHA1
)

func (h Hash) new() func() hash.Hash {
	switch h {
	case SHA512:
		return sha512.New
	case SHA1:
		return sha1.New
	}
	return sha256.New
}

// Encoding is how a signature is written.
type Encoding uint8

// The encodings.
const (
	Hex Encoding = iota
	Base64
)

func (e Encoding) decode(s string) ([]byte, error) {
	if e == Base64 {
		return base64.StdEncoding.DecodeString(s)
	}
	return hex.DecodeString(s)
}

// HMAC verifies schemes of one header that holds the HMAC of the body, or of a
// timestamp, a dot and the body. An ID in a header is not signed: see Event.IDSigned.
type HMAC struct {
	// Source names the provider. Required.
	Source string
	// Secrets are tried all: put the new one beside the old one to rotate.
	// One at least, none empty.
	Secrets [][]byte
	// Signature is the header that holds the signature. Required.
	Signature string
	// Prefix is what stands before the signature: "sha256=", say. Default "".
	Prefix string
	// Encoding and Hash default to Hex and SHA256.
	Encoding Encoding
	Hash     Hash
	// ID and Type are the headers that hold the event's ID and type. Default
	// "": there is none.
	ID, Type string
	// IDFrom reads the event's ID from the body, which is signed, instead of from
	// a header. "" is refused. Default nil.
	IDFrom func(body []byte) string
	// Timestamp is the header that holds the time in seconds since 1970, which
	// is signed, with a dot, before the body. Default "": nothing but the
	// body is signed.
	Timestamp string
	// Tolerance is how far Timestamp may be from now. Default 5 min; negative
	// is no bound.
	Tolerance time.Duration
}

// Verify implements Verifier.
func (h *HMAC) Verify(header http.Header, body []byte, now time.Time) (Event, error) {
	e := Event{Source: h.Source, ID: header.Get(h.ID), Type: header.Get(h.Type)}
	var before []byte
	if h.Timestamp != "" {
		text := header.Get(h.Timestamp)
		before = []byte(text + ".")
		var err error
		if e.Sent, err = sent(text, now, h.Tolerance); err != nil {
			return Event{}, err
		}
	}
	text, ok := strings.CutPrefix(header.Get(h.Signature), h.Prefix)
	if !ok {
		return Event{}, ErrSignature
	}
	sig, err := h.Encoding.decode(text)
	if err != nil || !signedByAny(h.Hash, h.Secrets, [][]byte{sig}, before, body) {
		return Event{}, ErrSignature
	}
	if h.IDFrom != nil {
		if e.ID, e.IDSigned = h.IDFrom(body), true; e.ID == "" {
			return Event{}, ErrNoID
		}
	}
	return e, nil
}

// GitHub verifies webhooks of GitHub: X-Hub-Signature-256. Its delivery ID is
// not signed, and it has no timestamp. More secrets than one are for rotation.
func GitHub(secrets ...[]byte) Verifier {
	return &HMAC{
		Source: "github", Secrets: secrets, Signature: "X-Hub-Signature-256", Prefix: "sha256=",
		ID: "X-GitHub-Delivery", Type: "X-GitHub-Event",
	}
}

// Shopify verifies webhooks of Shopify: X-Shopify-Hmac-SHA256. Its ID is not
// signed, and its timestamp neither.
func Shopify(secrets ...[]byte) Verifier {
	return &HMAC{
		Source: "shopify", Secrets: secrets, Signature: "X-Shopify-Hmac-Sha256", Encoding: Base64,
		ID: "X-Shopify-Webhook-Id", Type: "X-Shopify-Topic",
	}
}

// signedByAny reports whether one of sigs is that of one of secrets. It always
// tries them all.
func signedByAny(h Hash, secrets, sigs [][]byte, parts ...[]byte) bool {
	found := false
	for _, secret := range secrets {
		if len(secret) == 0 {
			continue // anybody has it
		}
		mac := hmac.New(h.new(), secret)
		for _, p := range parts {
			mac.Write(p)
		}
		want := mac.Sum(nil)
		for _, sig := range sigs {
			found = hmac.Equal(sig, want) || found
		}
	}
	return found
}

// sent parses seconds since 1970 and compares them with now. The text is signed
// as it stands, so only one spelling of a number is accepted.
func sent(text string, now time.Time, tolerance time.Duration) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return time.Time{}, ErrTimestamp
	}
	at := time.Unix(n, 0)
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if tolerance > 0 && now.Sub(at).Abs() > tolerance {
		return time.Time{}, ErrTimestamp
	}
	return at, nil
}
