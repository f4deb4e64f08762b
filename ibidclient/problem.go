package ibidclient

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/ibid-go/ibid"
)

// Problem types are those of docs/spec.md, the error types and codes of
// Stripe, and the issue of PayPal: what a server says of a key in the body of
// an answer.
//
// A type decides alone. Statuses decide only where no type is known, since
// servers disagree on them.
var problems = map[string]verdict{ // last part of the type, or error code → what follows
	"key-missing":         {outcome: Refused, sure: true, kind: ibid.ErrInvalid},
	"key-malformed":       {outcome: Refused, sure: true, kind: ibid.ErrInvalid},
	"scope-missing":       {outcome: Refused},
	"body-too-large":      {outcome: Refused},
	"body-unreadable":     {outcome: NotExecuted},
	"body-invalid":        {outcome: Refused},
	"in-progress":         {outcome: Unknown, again: true, kind: ibid.ErrInProgress},
	"key-reused":          {outcome: Refused, sure: true, kind: ibid.ErrMismatch},
	"outcome-unknown":     {outcome: Unknown, kind: ibid.ErrUnknown},
	"result-not-kept":     {outcome: Completed, sure: true, kind: ibid.ErrNotKept},
	"result-not-recorded": {outcome: Unknown, again: true, kind: ibid.ErrNotRecorded},
	"key-expired":         {outcome: Completed, sure: true, kind: ibid.ErrExpired},
	"too-many-attempts":   {outcome: NotExecuted, sure: true, kind: ibid.ErrAttempts},
	"too-many-keys":       {outcome: NotExecuted, again: true},
	"store-unavailable":   {outcome: NotExecuted, again: true, kind: ibid.ErrUnavailable},
	"draining":            {outcome: NotExecuted, again: true, kind: ibid.ErrDraining},
	"cancelled":           {outcome: NotExecuted, again: true},
	"record-damaged":      {outcome: Unknown, kind: ibid.ErrDamaged},
	"misconfigured":       {outcome: NotExecuted},

	"idempotency_error":            {outcome: Refused, sure: true, kind: ibid.ErrMismatch},
	"idempotency_key_in_use":       {outcome: Unknown, again: true, kind: ibid.ErrInProgress},
	"lock_timeout":                 {outcome: NotExecuted, again: true},
	"rate_limit":                   {outcome: NotExecuted, again: true},
	"PREVIOUS_REQUEST_IN_PROGRESS": {outcome: Unknown, again: true, kind: ibid.ErrInProgress},
}

// problemBase is what the problem types of docs/spec.md begin with.
const problemBase = "https://ibid-go.github.io/problems/"

// problemBody is every place where a known server names what went wrong.
type problemBody struct {
	Type  string          `json:"type"`  // RFC 9457
	Error json.RawMessage `json:"error"` // Stripe: an object with type and code
	Items json.RawMessage `json:"details"`
}

// maxProblem bounds what is read of a body to find its type, in bytes.
const maxProblem = 64 << 10

// problemOf returns what the body of resp names, if that is known, and whether
// the body is a problem of some other type: the application's own. The body can be read again.
func problemOf(resp *http.Response) (name string, v verdict, foreign bool) {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != "application/problem+json" && media != "application/json" && !strings.HasSuffix(media, "+json") {
		return "", verdict{}, false
	}
	var body problemBody
	if json.Unmarshal(peek(resp), &body) != nil {
		return "", verdict{}, false
	}
	if media == "application/problem+json" {
		name, ours := strings.CutPrefix(body.Type, problemBase)
		if v, ok := problems[name]; ok && ours {
			return name, v, false
		}
		return "", verdict{}, body.Type != "" && body.Type != "about:blank"
	}
	for _, name := range body.codes() {
		if v, ok := problems[name]; ok {
			return name, v, false
		}
	}
	return "", verdict{}, false
}

// codes returns what the body names outside of RFC 9457, the most specific first.
func (b *problemBody) codes() []string {
	var stripe struct{ Code, Type string }
	if json.Unmarshal(b.Error, &stripe) == nil {
		return []string{stripe.Code, stripe.Type}
	}
	var paypal []struct{ Issue string }
	if json.Unmarshal(b.Items, &paypal) == nil && len(paypal) > 0 {
		return []string{paypal[0].Issue}
	}
	return nil
}

// peek returns the first bytes of the body of resp and leaves it as it was.
func peek(resp *http.Response) []byte {
	if a, ok := resp.Body.(*answer); ok && a.ahead {
		return a.data
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failing{err}
	}
	resp.Body = &peeked{Reader: io.MultiReader(bytes.NewReader(head), rest), Closer: resp.Body}
	return head
}

type peeked struct {
	io.Reader
	io.Closer
}

// failing is a reader that has failed already.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
