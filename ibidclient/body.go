package ibidclient

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/ibid-go/ibid"
)

// source is where the body of every attempt comes from.
type source struct {
	kind   sourceKind
	data   []byte        // sourceHeld
	body   io.ReadCloser // of the first attempt; nil once it is taken
	length int64         // as in http.Request.ContentLength
}

type sourceKind uint8

const (
	sourceNone   sourceKind = iota // no body
	sourceRewind                   // the request's GetBody
	sourceHeld                     // held in memory
	sourceOnce                     // it can be sent only once
)

// open reads the body of req ahead where that is needed to send it again.
func (s *source) open(req *http.Request, limit int64) error {
	s.length = req.ContentLength
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return nil
	case req.GetBody != nil:
		s.kind, s.body = sourceRewind, req.Body
		return nil
	case req.ContentLength > limit || limit < 0:
		s.kind, s.body = sourceOnce, req.Body
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		req.Body.Close()
		return fmt.Errorf("ibidclient: reading the request body: %w", err)
	}
	if int64(len(head)) > limit {
		s.kind = sourceOnce
		s.body = &peeked{Reader: io.MultiReader(bytes.NewReader(head), req.Body), Closer: req.Body}
		return nil
	}
	req.Body.Close()
	if s.length > 0 && s.length != int64(len(head)) {
		return fmt.Errorf("%w: ibidclient: the request body has %d bytes, ContentLength says %d", ibid.ErrInvalid, len(head), s.length)
	}
	s.length = int64(len(head))
	if len(head) > 0 {
		s.kind, s.data = sourceHeld, head
	}
	return nil
}

// next returns the body of the next attempt; nil for none.
func (s *source) next(req *http.Request) (io.ReadCloser, error) {
	switch s.kind {
	case sourceHeld:
		return io.NopCloser(bytes.NewReader(s.data)), nil
	case sourceRewind, sourceOnce:
		if body := s.body; body != nil {
			s.body = nil
			return body, nil
		}
		if s.kind == sourceOnce {
			return nil, ErrSentOnce
		}
		return req.GetBody()
	}
	return nil, nil
}

// discard closes a body that no attempt took.
func (s *source) discard() {
	if s.body != nil {
		s.body.Close()
		s.body = nil
	}
}

// fingerprint digests what makes req this request: method, URL, Content-Type
// and body. A body that can be sent only once is left out, except for its length.
func (s *source) fingerprint(req *http.Request) (ibid.Fingerprint, error) {
	h := sha256.New()
	var n [8]byte
	part := func(p string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	part("ibid client fingerprint 1")
	part(method(req))
	part(req.URL.String())
	part(req.Header.Get("Content-Type"))
	switch s.kind {
	case sourceHeld:
		h.Write(s.data)
	case sourceRewind:
		body, err := req.GetBody()
		if err == nil {
			_, err = io.Copy(h, body)
			body.Close()
		}
		if err != nil {
			return ibid.Fingerprint{}, fmt.Errorf("ibidclient: reading the request body: %w", err)
		}
	case sourceOnce:
		binary.BigEndian.PutUint64(n[:], uint64(s.length))
		h.Write(n[:])
	}
	f := ibid.Fingerprint(h.Sum(nil))
	f[0] = 1 // the version of this algorithm
	return f, nil
}

func method(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}

// sent is the body of one attempt. It notes whether any of it was taken.
type sent struct {
	io.ReadCloser
	taken atomic.Bool
}

func (s *sent) Read(p []byte) (int, error) {
	s.taken.Store(true)
	return s.ReadCloser.Read(p)
}
