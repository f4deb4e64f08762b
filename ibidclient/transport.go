package ibidclient

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/ibid-go/ibid"
)

// Transport is an http.RoundTripper that gives every operation one key and
// retries it under that key. The zero Transport is ready to use. It is safe for
// concurrent use; it must not be copied, and Options not be changed, after the
// first request.
//
// Options that cannot be used as given refuse every request with
// ibid.ErrInvalid, and name the field.
type Transport struct {
	// Options say how requests are treated.
	Options Options

	once    sync.Once
	options Options // Options, completed
	err     error   // why they cannot be used
	budget  budget
}

// New returns a client that sends its requests through a Transport. A nil
// *Options is the default.
func New(opts *Options) *http.Client {
	t := new(Transport)
	if opts != nil {
		t.Options = *opts
	}
	return &http.Client{Transport: t}
}

// RoundTrip implements http.RoundTripper: it sends the request until it has an
// answer that is final, or may not send it again. It then returns the last
// response, if there is one that the caller can use, and otherwise an *Error.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.once.Do(func() { t.options, t.err = t.Options.complete() })
	op := &operation{Context: req.Context(), t: t, req: req, header: req.Header, wait: -1}
	err := t.err
	if err == nil {
		err = op.findKey()
	}
	if err != nil {
		closeBody(req)
		return nil, op.refuse(err)
	}
	if op.key == "" && !safe(method(req)) {
		return t.options.Base.RoundTrip(req)
	}
	if err := op.source.open(req, t.options.MaxBody); err != nil {
		return nil, op.refuse(err)
	}
	defer op.source.discard()
	if err := op.begin(); err != nil {
		return nil, op.refuse(err)
	}
	t.budget.earn(t.options.Budget)
	return op.run()
}

// CloseIdleConnections closes those of the base transport.
func (t *Transport) CloseIdleConnections() {
	base := t.Options.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// findKey sets the key of the operation, and the header that carries it. The
// key stays "" where the request is none that has one.
func (op *operation) findKey() error {
	o := &op.t.options
	if safe(method(op.req)) {
		return nil
	}
	key, given, err := headerKey(op.header, o.Header)
	if err != nil {
		return err
	}
	redirected := operationOf(op.req.Response)
	op.bound, _ = op.Value(boundKey{}).(*bound)
	switch {
	case redirected != nil && redirected.key != "":
		// A redirect that keeps the method is the same operation. What its
		// context was bound to is the request that was redirected.
		op.key, op.bound, op.maybe = redirected.key, nil, redirected.maybe
		op.since, op.end = redirected.since, redirected.end
	case op.bound != nil:
		op.key = op.bound.key
		if given && key != op.key {
			return fmt.Errorf("%w: ibidclient: the context has one key, the header %s another", ibid.ErrInvalid, o.Header)
		}
	case given:
		op.key = key
	case slices.Contains(o.Methods, method(op.req)):
		op.key = o.Mint()
	default:
		return nil
	}
	if err := checkKey(op.key); err != nil {
		return err
	}
	if !given {
		if op.header = op.header.Clone(); op.header == nil {
			op.header = make(http.Header, 1)
		}
		op.header[o.Header] = []string{headerValue(op.key, o.Quote)}
	}
	return nil
}

// safe reports whether a method asks for nothing to be done (RFC 9110, section 9.2.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
