package ibidhttp

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// The request body is read whole before the key is claimed: a slow or broken
// upload holds no claim, and the fingerprint covers all of it.

var (
	errBodyTooLarge   = errors.New("the request body is too large")
	errBodyUnreadable = errors.New("the request body could not be read to its end")
	errBodyGone       = errors.New("something in front has read the request body")
)

// readBody appends the whole body to buf, up to limit bytes; a negative limit
// is none.
func readBody(buf []byte, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return buf, nil
	}
	if limit >= 0 && r.ContentLength > limit {
		return buf, errBodyTooLarge
	}
	if n := r.ContentLength; n > int64(cap(buf)) && n <= 1<<20 {
		buf = make([]byte, 0, n+1) // one more, so that the end is seen without growing
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case limit >= 0 && int64(len(buf)) > limit:
			return buf, errBodyTooLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, bodyError(err)
		}
	}
}

// bodyGone reports whether something in front, a parser of forms say, has read the
// body and not put it back: what is left does not tell one request from another.
func bodyGone(r *http.Request) bool {
	return r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil
}

// removeFiles deletes the temporary files of a form that the handler parsed of
// r, a copy of the request of: net/http deletes those of its own request only.
func removeFiles(r, of *http.Request) {
	if r.MultipartForm != nil && r.MultipartForm != of.MultipartForm {
		_ = r.MultipartForm.RemoveAll() // the operating system clears what is left
	}
}

// bodyError says what a failed read means. A limit that something in front put
// on the body is as good as the middleware's own.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errBodyTooLarge
	}
	return errBodyUnreadable
}

// requestBody is the body as the handler reads it. After the handler has
// returned its bytes belong to another request, and reading fails, as it does
// with net/http's own.
type requestBody struct {
	mu     sync.Mutex
	rest   []byte
	closed bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.rest = true, nil
	return nil
}
