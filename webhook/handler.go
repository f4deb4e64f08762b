package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
)

// maxWait bounds how long a consumer may wait for another delivery: the most
// impatient providers hang up after 5 s.
const maxWait = 3 * time.Second

// DefaultMaxBody is how many bytes a body may have.
const DefaultMaxBody = 1 << 20

// Options of a handler. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// MaxBody bounds the body, in bytes; more is answered 413. Default 1 MiB;
	// negative is no bound.
	MaxBody int64
	// Observe is called with what became of each request whose signature was
	// right, before it is answered. Default: nothing is called.
	Observe func(context.Context, Event, inbox.Decision)
	// Refused is called with each request that was not verified, and why.
	// Default: nothing is called.
	Refused func(context.Context, *http.Request, error)
}

// New returns the handler of one endpoint. The consumer's name is the
// endpoint's: events of two endpoints do not see each other. handle gets what
// verifier made of a request, once per event; its errors are those of work.
//
// ErrInvalid reports a consumer that waits for more than 3 s.
func New(consumer *inbox.Consumer, verifier Verifier, handle func(context.Context, Event) error, opts *Options) (http.Handler, error) {
	h := &handler{consumer: consumer, verifier: verifier, handle: handle}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.MaxBody == 0 {
		h.opts.MaxBody = DefaultMaxBody
	}
	if consumer == nil || verifier == nil || handle == nil {
		return nil, fmt.Errorf("%w: webhook: consumer, verifier and handle are required", ibid.ErrInvalid)
	}
	if w := consumer.Policy().Wait; w > maxWait {
		return nil, fmt.Errorf("%w: webhook: the consumer's Policy.Wait is %v, more than %v: providers hang up", ibid.ErrInvalid, w, maxWait)
	}
	return h, nil
}

type handler struct {
	consumer *inbox.Consumer
	verifier Verifier
	handle   func(context.Context, Event) error
	opts     Options
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed)
		return
	}
	body, err := h.read(w, r)
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			status = http.StatusRequestEntityTooLarge
		}
		h.refuse(w, r, status, err)
		return
	}
	event, err := h.verifier.Verify(r.Header, body, time.Now())
	if err != nil {
		h.refuse(w, r, http.StatusUnauthorized, err)
		return
	}
	event.Body = body
	d := h.consumer.Process(r.Context(), event.message(), nil, func(ctx context.Context) error {
		return h.handle(ctx, event)
	})
	if h.opts.Observe != nil {
		h.opts.Observe(r.Context(), event, d)
	}
	if d.Verdict == inbox.Retry || d.Verdict == inbox.Leave {
		seconds := (max(d.Delay, time.Second) + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	answer(w, status(d))
}

func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body := r.Body
	if h.opts.MaxBody >= 0 {
		body = http.MaxBytesReader(w, body, h.opts.MaxBody)
	}
	return io.ReadAll(body)
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	if h.opts.Refused != nil {
		h.opts.Refused(r.Context(), r, err)
	}
	answer(w, status)
}

// status is the answer to a request whose signature was right.
func status(d inbox.Decision) int {
	switch {
	case d.Verdict == inbox.Ack:
		return http.StatusNoContent
	case d.Verdict != inbox.Reject:
		return http.StatusServiceUnavailable
	case errors.Is(d.Err, ibid.ErrUnknown), errors.Is(d.Err, ibid.ErrDamaged), errors.Is(d.Err, ibid.ErrNotKept):
		return http.StatusConflict
	}
	return http.StatusUnprocessableEntity
}

// answer says nothing but the status: the sender may be anyone.
func answer(w http.ResponseWriter, status int) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
}
