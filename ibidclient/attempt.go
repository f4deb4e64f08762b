package ibidclient

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// attempt is one call of the base transport. What it holds may still be in use
// by that transport after the call returned: no attempt is used twice.
type attempt struct {
	req     http.Request
	body    sent
	trace   httptrace.ClientTrace
	conns   atomic.Int32 // connections that the request was given
	reused  atomic.Bool  // the last of them had been used before
	hasBody bool         // there is a body
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	start   time.Time
}

// prepare makes a the next attempt of op, which may take limit; 0 is no limit.
func (a *attempt) prepare(op *operation, limit time.Duration) error {
	body, err := op.source.next(op.req)
	if err != nil {
		return err
	}
	if a.start = op.start; op.attempts > 0 {
		a.start = time.Now()
	}
	a.trace.GotConn = a.gotConn
	a.ctx, a.cancel = context.WithCancelCause(op)
	if limit > 0 {
		a.timer = time.AfterFunc(limit, func() { a.cancel(ErrAttemptTimeout) })
	}
	a.req = *op.req.WithContext(httptrace.WithClientTrace(a.ctx, &a.trace))
	a.req.Header = op.header
	a.req.GetBody = nil
	a.req.Body, a.req.ContentLength = http.NoBody, 0
	switch {
	case body == nil && op.req.Body == nil:
		a.req.Body = nil
	case body != nil:
		a.hasBody = true
		a.body.ReadCloser = body
		a.req.Body, a.req.ContentLength = body, op.source.length
		if _, traced := op.t.options.Base.(*http.Transport); !traced {
			// Only here: http.Transport sends header and body in one packet
			// when it sees that the body is in memory.
			a.req.Body = &a.body
		}
	}
	return nil
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.conns.Add(1)
	a.reused.Store(info.Reused)
}

// disarm lets the answer take as long as it wants.
func (a *attempt) disarm() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// end frees what the attempt holds of its context.
func (a *attempt) end() {
	a.disarm()
	a.cancel(nil)
}

// sends returns how often the request went to the wire. A body cannot go there
// twice. Without one, http.Transport repeats a request that carries a key when
// a connection breaks that was used before, each time on another connection.
func (a *attempt) sends(base http.RoundTripper, err error) int {
	switch {
	case err != nil && a.untouched(base, err):
		return 0
	case a.hasBody:
		return 1
	}
	return max(int(a.conns.Load()), 1)
}

// untouched reports whether a failed attempt definitely sent nothing.
func (a *attempt) untouched(base http.RoundTripper, err error) bool {
	if a.conns.Load() > 0 || a.body.taken.Load() {
		return false
	}
	if _, traced := base.(*http.Transport); traced || a.hasBody {
		return true // no connection, or nothing was asked of the body
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// broken reports whether the attempt failed because a connection broke that
// had been used before: most likely the server had closed it meanwhile.
func (a *attempt) broken(err error) bool {
	return err != nil && a.reused.Load() && a.ctx.Err() == nil && !isTimeout(err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
