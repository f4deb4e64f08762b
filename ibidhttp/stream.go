package ibidhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/ibid-go/ibid/ibidhttp/internal/answer"
)

// A streaming route gives its answer away as it is written, before it is
// recorded; that is what it declares. What is recorded is that it was carried
// out, with which status and Location, so that nothing runs again.

// stream is the work of a streaming route.
func (x *exchange) stream(ctx context.Context) ([]byte, error) {
	w := &streamer{w: x.w}
	body := &requestBody{}
	defer body.Close() // never fails
	r := x.request(ctx, body)
	defer removeFiles(r, x.r)
	x.next.ServeHTTP(w, r)
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	x.streamed = true
	if !x.m.o.Kept(w.status, x.w.Header()) {
		return nil, errReleased
	}
	a := notKept(w.status, answer.CleanValue(w.location))
	return a.Append(nil), nil
}

// streamer is the http.ResponseWriter of a streaming route. It notes the status
// and passes everything on, save for Hijack.
type streamer struct {
	w        http.ResponseWriter
	status   int
	location string
}

// Header implements http.ResponseWriter.
func (s *streamer) Header() http.Header { return s.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (s *streamer) WriteHeader(status int) {
	if s.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		s.status, s.location = status, s.w.Header().Get("Location")
	}
	s.w.WriteHeader(status)
}

func (s *streamer) begin() {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
}

// Write implements io.Writer.
func (s *streamer) Write(p []byte) (int, error) {
	s.begin()
	return s.w.Write(p)
}

// ReadFrom implements io.ReaderFrom.
func (s *streamer) ReadFrom(src io.Reader) (int64, error) {
	s.begin()
	return io.Copy(s.w, src)
}

// Flush implements http.Flusher.
func (s *streamer) Flush() { _ = s.FlushError() }

// FlushError sends what was written so far.
func (s *streamer) FlushError() error {
	s.begin()
	return http.NewResponseController(s.w).Flush()
}

// Hijack refuses: the status of what is written to a bare connection is not known.
func (s *streamer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// SetReadDeadline is that of the connection.
func (s *streamer) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(s.w).SetReadDeadline(t)
}

// SetWriteDeadline is that of the connection.
func (s *streamer) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(s.w).SetWriteDeadline(t)
}

// EnableFullDuplex is that of the connection.
func (s *streamer) EnableFullDuplex() error {
	return http.NewResponseController(s.w).EnableFullDuplex()
}
