package orders

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/steps"
)

// Recover finishes orders whose process died, and those that failed half-way, without any
// client's retry, until ctx ends. It looks for them at once, and again after each pause of every.
func (s *Shop) Recover(ctx context.Context, every time.Duration) error {
	return steps.Recover(ctx, s.engine, map[string]steps.Handler{requestName: s.redrive}, &steps.RecoverOptions{
		Every:   every,
		Backoff: every,
		// An order that has reserved stock is finished, although its caller was told
		// 503: the answer said so.
		Released: true,
		Observe: func(ctx context.Context, r steps.Redriven) {
			if r.Err != nil {
				s.opts.Log.WarnContext(ctx, "order not finished", "attempt", r.Attempt, "error", r.Err)
			}
		},
	})
}

// redrive sends the kept request through the route again, as its client would have.
func (s *Shop) redrive(ctx context.Context, kept steps.Request) error {
	r, err := http.NewRequestWithContext(ctx, kept.Method, kept.Path, bytes.NewReader(kept.Body))
	if err != nil {
		return err
	}
	r.Header = kept.Header
	w := &recorded{header: http.Header{}}
	s.orders.ServeHTTP(w, r)
	problem := w.body.String()
	switch {
	case w.status < 300, w.header.Get("Idempotent-Replayed") != "":
		return nil
	case strings.Contains(problem, ibidhttp.TypeInProgress):
		return ibid.ErrInProgress
	case strings.Contains(problem, ibidhttp.TypeUnknown):
		return ibid.ErrUnknown
	case w.status < 500: // sold out, or declined: recorded as the answer
		return ibid.Final(errors.New(http.StatusText(w.status)))
	}
	return fmt.Errorf("%d: %s", w.status, problem)
}

// recorded is an answer that nobody waits for.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorded) Header() http.Header { return w.header }

func (w *recorded) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *recorded) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
