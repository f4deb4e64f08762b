package webhook

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Stripe verifies webhooks of Stripe: Stripe-Signature, with a timestamp that
// may be 5 min old. The ID is that of the event, in the signed body. More secrets than
// one are for rotation.
func Stripe(secrets ...[]byte) Verifier { return stripe(secrets) }

type stripe [][]byte

// Verify implements Verifier.
func (s stripe) Verify(header http.Header, body []byte, now time.Time) (Event, error) {
	var stamp string
	var sigs [][]byte
	for _, part := range strings.Split(header.Get("Stripe-Signature"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			if sig, err := hex.DecodeString(value); err == nil {
				sigs = append(sigs, sig)
			}
		}
	}
	if len(sigs) == 0 || len(sigs) > maxSignatures || !signedByAny(SHA256, s, sigs, []byte(stamp+"."), body) {
		return Event{}, ErrSignature
	}
	at, err := sent(stamp, now, 0)
	if err != nil {
		return Event{}, err
	}
	var in struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.ID == "" {
		return Event{}, ErrNoID
	}
	return Event{Source: "stripe", ID: in.ID, Type: in.Type, Sent: at, IDSigned: true}, nil
}

// maxSignatures bounds the work that one forged header can cause.
const maxSignatures = 16
