package payments

import (
	"encoding/json"
	"errors"
	"net/http"
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
		return problem(http.StatusInternalServerError, err.Error())
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if location != "" {
		h.Set("Location", location)
	}
	return answer{status: status, header: h, body: b}
}

// problem is an answer in the form of RFC 9457.
func problem(status int, detail string) answer {
	a := newAnswer(status, "", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
	a.header.Set("Content-Type", "application/problem+json")
	return a
}

// failure is the answer to what went wrong, once the request was understood.
func failure(err error, location string) answer {
	switch {
	case errors.Is(err, ErrNotFound):
		return problem(http.StatusNotFound, "there is no such payment or refund of this caller")
	case errors.Is(err, ErrTooMuch):
		return problem(http.StatusConflict, "the refund is more than is left of the payment")
	case errors.Is(err, ErrExists):
		a := problem(http.StatusConflict, "the unique constraint held: this operation is there already, see Location")
		a.header.Set("Location", location)
		return a
	case errors.Is(err, errBefore):
		return problem(http.StatusServiceUnavailable, err.Error())
	}
	return problem(http.StatusInternalServerError, err.Error())
}
