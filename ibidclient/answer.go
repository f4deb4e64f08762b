package ibidclient

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
)

// AttemptsOf returns how often the request of resp was sent, as far as that
// was seen at the wire: repeats that http.Transport makes on its own count,
// attempts that found no connection do not. 0 for a response that is not a Transport's.
func AttemptsOf(resp *http.Response) int {
	if op := operationOf(resp); op != nil {
		return op.sends
	}
	return 0
}

// Replayed reports whether the server marked resp as the recorded answer of an
// earlier attempt.
func Replayed(resp *http.Response) bool {
	marker := DefaultReplayMarker
	if op := operationOf(resp); op != nil {
		marker = op.t.options.ReplayMarker
	}
	return marked(resp, marker)
}

// KeyOf returns the key under which resp was asked for; "" for none, and for a
// response that is not a Transport's.
func KeyOf(resp *http.Response) string {
	if op := operationOf(resp); op != nil {
		return op.key
	}
	return ""
}

// operationOf returns the operation that resp answers; nil for none.
func operationOf(resp *http.Response) *operation {
	if resp == nil || resp.Request == nil {
		return nil
	}
	op, _ := resp.Request.Context().Value(operationKey{}).(*operation)
	return op
}

// answer is the body of the response that the caller gets.
type answer struct {
	op     *operation
	a      *attempt
	body   io.ReadCloser
	ahead  bool // data is the whole body, and body is closed
	data   []byte
	reader bytes.Reader
	closed bool
	small  [512]byte // holds data where it fits
}

// readAhead reads the body of resp whole, if it is announced to be short
// enough: a body that breaks off is then an attempt without an answer.
func (op *operation) readAhead(a *attempt, resp *http.Response) error {
	ans := &op.answer
	ans.op, ans.a, ans.body = op, a, resp.Body
	ans.ahead, ans.closed, ans.data = false, false, nil
	resp.Body = ans
	n := resp.ContentLength
	if op.key == "" || n < 0 || n > op.t.options.MaxAnswer || method(op.req) == http.MethodHead ||
		resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	// One byte more than announced, to read the end of the body as well: only
	// then is the connection free.
	data := ans.small[:]
	if n < int64(len(data)) {
		data = data[:n+1]
	} else {
		data = make([]byte, n+1)
	}
	k, err := io.ReadFull(ans.body, data)
	if int64(k) != n || err != io.ErrUnexpectedEOF && err != io.EOF {
		ans.body.Close()
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	ans.data = data[:n]
	ans.body.Close()
	ans.ahead = true
	ans.reader.Reset(ans.data)
	return nil
}

// Read implements io.Reader. An error is an *Error, with the key under which
// the whole answer can be had.
func (ans *answer) Read(p []byte) (int, error) {
	if ans.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if ans.ahead {
		return ans.reader.Read(p)
	}
	n, err := ans.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && ans.op.key != "" {
		e := ans.op.failure(nil, err)
		if ans.op.last.success {
			e.Outcome = Completed
		}
		err = e
	}
	return n, err
}

// Close implements io.Closer. It is when the journal forgets the operation:
// the answer was handed over.
func (ans *answer) Close() error {
	if ans.closed {
		return nil
	}
	ans.closed = true
	var err error
	if !ans.ahead {
		err = ans.body.Close()
	}
	ans.a.end()
	ans.op.answered()
	return err
}

// drop closes a response that nobody will see, so that its connection can be
// used again where that costs little.
func drop(resp *http.Response) {
	if a, ok := resp.Body.(*answer); !ok || !a.ahead {
		_, _ = io.CopyN(io.Discard, resp.Body, maxProblem) // an error closes the connection
	}
	resp.Body.Close()
}
