package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// Standard verifies webhooks of the Standard Webhooks specification, version 1:
// webhook-id, webhook-timestamp and webhook-signature, which covers all three. A
// retry has the same ID and a new timestamp.
type Standard struct {
	// Source names the provider. Required.
	Source string
	// Secrets verify the signatures marked v1 (HMAC-SHA-256). They are the
	// bytes that StandardSecret makes of "whsec_…".
	Secrets [][]byte
	// PublicKeys verify those marked v1a (ed25519).
	PublicKeys []ed25519.PublicKey
	// Tolerance is how far the timestamp may be from now. Default 5 min;
	// negative is no bound.
	Tolerance time.Duration
}

// StandardSecret decodes a secret as providers show it: base64 after "whsec_".
func StandardSecret(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
}

// Verify implements Verifier.
func (s *Standard) Verify(header http.Header, body []byte, now time.Time) (Event, error) {
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	if id == "" || strings.Contains(id, ".") {
		return Event{}, ErrNoID // a dot separates what is signed
	}
	var macs, signatures [][]byte
	for _, part := range strings.Fields(header.Get("Webhook-Signature")) {
		version, text, _ := strings.Cut(part, ",")
		sig, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		switch version {
		case "v1":
			macs = append(macs, sig)
		case "v1a":
			signatures = append(signatures, sig)
		}
	}
	if len(macs)+len(signatures) > maxSignatures {
		return Event{}, ErrSignature
	}
	before := []byte(id + "." + stamp + ".")
	ok := signedByAny(SHA256, s.Secrets, macs, before, body)
	if !ok && len(signatures) > 0 {
		signed := append(before, body...)
		for _, key := range s.PublicKeys {
			for _, sig := range signatures {
				ok = len(key) == ed25519.PublicKeySize && ed25519.Verify(key, signed, sig) || ok
			}
		}
	}
	if !ok {
		return Event{}, ErrSignature
	}
	at, err := sent(stamp, now, s.Tolerance)
	if err != nil {
		return Event{}, err
	}
	return Event{Source: s.Source, ID: id, Sent: at, IDSigned: true}, nil
}
