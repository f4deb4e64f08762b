package orders

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ibid-go/ibid"
)

// answer is a whole answer, before it is written.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a caller that is gone reads nothing
}

func newAnswer(status int, location string, body any) answer {
	b, err := json.Marshal(body)
	if err != nil {
		return refuse(http.StatusInternalServerError, err.Error())
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if location != "" {
		h.Set("Location", location)
	}
	return answer{status: status, header: h, body: b}
}

// refuse is an answer in the form of RFC 9457.
func refuse(status int, detail string) answer {
	a := newAnswer(status, "", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
	a.header.Set("Content-Type", "application/problem+json")
	return a
}

// failure is the answer to what may yet be finished: 5xx frees the key, and what
// the steps have kept stays.
func failure(ctx context.Context, err error) answer {
	detail := ""
	switch {
	case errors.Is(err, errProvider):
		detail = "the payment provider does not answer: the order is finished by a retry, or when the provider is back"
	case errors.Is(err, ibid.ErrClaimLost), errors.Is(context.Cause(ctx), ibid.ErrClaimLost):
		detail = "another attempt has taken the order over: a retry gets its answer"
	default:
		return refuse(http.StatusInternalServerError, err.Error())
	}
	a := refuse(http.StatusServiceUnavailable, detail)
	a.header.Set("Retry-After", "1")
	return a
}
