package ibidhttp

import (
	"maps"
	"net/http"
	"slices"

	"github.com/ibid-go/ibid/ibidhttp/internal/answer"
)

// Answer is an answer as it is recorded, for those who look at a key or resolve
// an unknown outcome: Engine.Inspect shows the bytes as Operation.Value, and
// Engine.Resolve takes them as Resolution.Value.
type Answer struct {
	Status int
	// Header are the kept headers, Trailer the kept trailers.
	Header, Trailer http.Header
	Body            []byte
	// NotKept is set when nothing but the status and the Location was kept.
	NotKept bool
}

// Encode returns the bytes of a, as the middleware would have recorded them.
// ErrInvalid names the status or header that no handler could have answered.
func (a Answer) Encode() ([]byte, error) {
	if a.Status < 200 || a.Status > 999 {
		return nil, invalid("Answer.Status is %d: it must lie between 200 and 999", a.Status)
	}
	out := answer.Answer{Status: a.Status, NotKept: a.NotKept, Body: a.Body}
	for i, header := range [...]http.Header{a.Header, a.Trailer} {
		for _, name := range slices.Sorted(maps.Keys(header)) {
			switch {
			case !answer.ValidName(name):
				return nil, invalid("Answer: %q is no header name", name)
			case answer.Forbidden(name):
				return nil, invalid("Answer: header %s belongs to the connection or the message, and cannot be recorded", name)
			}
			for _, value := range header[name] {
				if !answer.ValidValue(value) {
					return nil, invalid("Answer: header %s: %q is no header value", name, value)
				}
				out.Fields = append(out.Fields, answer.Field{Name: http.CanonicalHeaderKey(name), Value: value, Trailer: i == 1})
			}
		}
	}
	out.NoType = a.Header.Get("Content-Type") == ""
	return out.Append(nil), nil
}

// DecodeAnswer reads what the middleware recorded. The body is a part of result. An error
// reports bytes that are no recorded answer.
func DecodeAnswer(result []byte) (Answer, error) {
	var in answer.Answer
	if err := in.Decode(result); err != nil {
		return Answer{}, err
	}
	a := Answer{Status: in.Status, Header: http.Header{}, Trailer: http.Header{}, Body: in.Body, NotKept: in.NotKept}
	for _, f := range in.Fields {
		h := a.Header
		if f.Trailer {
			h = a.Trailer
		}
		h[f.Name] = append(h[f.Name], f.Value)
	}
	return a, nil
}
