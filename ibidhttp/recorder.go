package ibidhttp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ibid-go/ibid/ibidhttp/internal/answer"
)

// recorder is the http.ResponseWriter of a guarded handler. It keeps what the handler
// answers and lets none of it through, except for interim answers (1xx).
//
// It has no Unwrap: everything that net/http offers beyond ResponseWriter is
// decided here, and nothing reaches the connection around it. Once the handler
// has returned, writing fails.
type recorder struct {
	mu     sync.Mutex
	x      *exchange   // nil after the handler has returned
	header http.Header // as the handler sees it
	body   requestBody
}

var errAnswered = errors.New("ibidhttp: the handler has returned")

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Like net/http's it passes interim
// statuses on, freezes the header at the first final one, and ignores the others.
func (w *recorder) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status < 100 || status > 999 {
		panic("ibidhttp: invalid status of the handler's answer")
	}
	switch {
	case w.x == nil || w.x.status != 0:
	case status == http.StatusSwitchingProtocols:
		// There is no connection to switch: Hijack is refused.
		w.x.freeze(w.header, http.StatusInternalServerError)
	case status < 200:
		w.x.interim(w.header, status)
	default:
		w.x.freeze(w.header, status)
	}
}

// Write implements io.Writer.
func (w *recorder) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open(); err != nil {
		return 0, err
	}
	return w.x.write(p)
}

// WriteString implements io.StringWriter.
func (w *recorder) WriteString(s string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open(); err != nil {
		return 0, err
	}
	return w.x.write([]byte(s))
}

// ReadFrom implements io.ReaderFrom. It never reaches the connection: what is
// copied is recorded like what is written.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, src)
}

func (w *recorder) open() error {
	if w.x == nil {
		return errAnswered
	}
	if w.x.status == 0 {
		w.x.freeze(w.header, http.StatusOK)
	}
	if !hasBody(w.x.status) {
		return http.ErrBodyNotAllowed
	}
	return nil
}

// Flush implements http.Flusher. Nothing is sent before it is recorded.
func (w *recorder) Flush() { _ = w.FlushError() }

// FlushError freezes the header, as net/http's does, and sends nothing.
func (w *recorder) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open(); errors.Is(err, errAnswered) {
		return err
	}
	return nil // an answer without a body has nothing to flush
}

// Hijack refuses: what is written to a bare connection cannot be recorded.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// SetReadDeadline is that of the connection.
func (w *recorder) SetReadDeadline(t time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline is that of the connection. It also bounds the sending of
// the recorded answer.
func (w *recorder) SetWriteDeadline(t time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// EnableFullDuplex is that of the connection. The body has been read already.
func (w *recorder) EnableFullDuplex() error {
	return w.control(func(c *http.ResponseController) error { return c.EnableFullDuplex() })
}

func (w *recorder) control(do func(*http.ResponseController) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.x == nil {
		return errAnswered
	}
	return do(http.NewResponseController(w.x.w))
}

// hasBody reports whether an answer of this status has a body (RFC 9110
// sections 15.3.5 and 15.4.5).
func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// interim sends an interim answer with the header as it is now.
func (x *exchange) interim(header http.Header, status int) {
	if x.direct {
		x.w.WriteHeader(status)
		return
	}
	dst := x.w.Header()
	before := dst.Clone()
	for name, values := range header {
		dst[name] = values
	}
	x.w.WriteHeader(status)
	clear(dst)
	for name, values := range before {
		dst[name] = values
	}
}

// freeze takes the status and the header of the final answer: what the handler
// does to the header later does not count, except for trailers.
func (x *exchange) freeze(header http.Header, status int) {
	x.status = status
	for name, values := range header {
		switch {
		case strings.HasPrefix(name, http.TrailerPrefix):
			continue
		case name == "Content-Type" && len(values) == 0:
			x.noType = true
			continue
		case name == "Trailer":
			x.declare(values)
			continue
		case name == "Content-Length":
			continue // made anew of what was written
		}
		x.take(name, values, header["Connection"])
	}
}

// take adds the lines of one header to the answer, as the server would send them.
func (x *exchange) take(name string, values, connection []string) {
	t := x.m.rules.of(name)
	if t == remove || !validHeaderName(name) {
		return
	}
	live := t == liveOnly || connection != nil && namedByConnection(connection, name)
	for _, v := range values {
		x.fields = append(x.fields, answer.Field{Name: name, Value: answer.CleanValue(v), Live: live})
	}
}

func (x *exchange) declare(lines []string) {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if validTrailer(name) && !slices.Contains(x.declared, name) {
				x.declared = append(x.declared, name)
			}
		}
	}
}

func validTrailer(name string) bool { return validHeaderName(name) && !answer.Forbidden(name) }

func (x *exchange) write(p []byte) (int, error) {
	limit := x.m.o.MaxResult
	switch {
	case x.spoolErr != nil:
		return 0, x.spoolErr
	case x.spool != nil:
		return x.spooled(p)
	case limit < 0 || int64(len(x.out)+len(p)) <= limit:
		x.out = append(x.out, p...)
		return len(p), nil
	}
	x.sniff(append(x.out, p[:min(len(p), 512)]...))
	if x.spool, x.spoolErr = newSpool(x.m.o.SpoolDir, x.out); x.spoolErr != nil {
		return 0, x.spoolErr
	}
	x.out = nil // not worth keeping: it has grown to the limit
	return x.spooled(p)
}

func (x *exchange) spooled(p []byte) (int, error) {
	n, err := x.spool.Write(p)
	x.spoolErr = err
	return n, err
}

// sniff adds the Content-Type that the server would find out, so that a
// replay by another server has the same.
func (x *exchange) sniff(begin []byte) {
	if len(begin) == 0 || x.noType || x.field("Content-Type") != "" || x.field("Content-Encoding") != "" {
		return
	}
	x.fields = append(x.fields, answer.Field{Name: "Content-Type", Value: http.DetectContentType(begin)})
}

// field returns the value of the first header line of that name.
func (x *exchange) field(name string) string {
	for i := range x.fields {
		if f := &x.fields[i]; f.Name == name && !f.Trailer {
			return f.Value
		}
	}
	return ""
}

// finish ends the handler's answer: nothing it still does to w counts.
func (w *recorder) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.x
	if x == nil {
		return
	}
	if x.status == 0 {
		x.freeze(w.header, http.StatusOK)
	}
	if x.spool == nil {
		x.sniff(x.out)
	}
	slices.SortStableFunc(x.fields, func(a, b answer.Field) int { return strings.Compare(a.Name, b.Name) })
	x.headers = len(x.fields)
	if len(x.declared) > 0 || hasTrailers(w.header) {
		x.takeTrailers(w.header)
	}
	w.x = nil
}

func hasTrailers(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

func (x *exchange) takeTrailers(header http.Header) {
	for name := range header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if name = http.CanonicalHeaderKey(name); validTrailer(name) && !slices.Contains(x.declared, name) {
				x.declared = append(x.declared, name)
			}
		}
	}
	slices.Sort(x.declared)
	for _, name := range x.declared {
		for _, values := range [...][]string{header[name], header[http.TrailerPrefix+name]} {
			for _, v := range values {
				x.fields = append(x.fields, answer.Field{Name: name, Value: answer.CleanValue(v), Trailer: true})
			}
		}
	}
}

// detach makes sure that a handler that has ended, however it did, reaches
// neither the connection nor the buffers again.
func (w *recorder) detach() {
	w.mu.Lock()
	w.x = nil
	w.mu.Unlock()
	_ = w.body.Close()
}
