package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
)

// Event is a request that was verified. A handler gets it from no one but a
// Verifier.
type Event struct {
	// Source is the provider, which made the ID unique.
	Source string
	// ID is the provider's name for the event; "" where it has none, and
	// IDSigned is false then.
	ID string
	// Type is the kind of event, as the provider calls it; "" if it is not known
	// without reading the body.
	Type string
	// Sent is when it was signed; zero where the scheme has no timestamp.
	Sent time.Time
	// IDSigned says that the signature covers the ID. If not, anybody who has
	// captured a request can send it with another ID.
	IDSigned bool
	// Body is the body as it was signed.
	Body []byte
}

// message is the identity of the event. An ID that anybody could have written
// is not one: then the body is, which the signature covers, and the ID is
// compared. Two events with equal bodies under such a scheme are one.
func (e Event) message() inbox.Message {
	if e.IDSigned {
		return inbox.Message{Source: e.Source, ID: e.ID, Body: e.Body}
	}
	sum := sha256.Sum256(e.Body)
	return inbox.Message{
		Source: e.Source,
		ID:     "body " + hex.EncodeToString(sum[:]),
		Body:   []byte(ibid.Join("id", e.ID)),
	}
}

// Verifier tells an event of the provider from anything else. It compares in
// constant time, and knows nothing of what was processed.
type Verifier interface {
	// Verify returns the event that header and body are, at now. Any error is
	// answered 401. Body is filled in by the handler.
	Verify(header http.Header, body []byte, now time.Time) (Event, error)
}

var (
	// ErrSignature reports that no signature was made with one of the secrets.
	// The sender is not the provider, or a secret is missing.
	ErrSignature = errors.New("webhook: signature missing or wrong")

	// ErrTimestamp reports a timestamp that is missing, or too far from now. The
	// request was captured, or a clock is wrong.
	ErrTimestamp = errors.New("webhook: timestamp out of tolerance")

	// ErrNoID reports that a signed request does not say which event it is.
	ErrNoID = errors.New("webhook: event has no ID")
)
