package steps

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

type stepKey struct{}

// inStep is the step that a context belongs to.
type inStep struct {
	info StepInfo

	mu     sync.Mutex
	target string // method and address of the call that has the key
}

// InfoFrom returns the step that ctx belongs to; false outside of one.
func InfoFrom(ctx context.Context) (StepInfo, bool) {
	if in, ok := ctx.Value(stepKey{}).(*inStep); ok {
		return in.info, true
	}
	return StepInfo{}, false
}

// Transport sets the idempotency key of calls made within a step to the step's
// derived key. Calls that have one, calls outside of a step, and GET, HEAD, OPTIONS
// and TRACE pass as they are. A step makes one call, and may repeat it: a call of another
// method or address would have the key of the first, and is an error before it
// is sent. The zero Transport is ready for use.
type Transport struct {
	// Base sends the calls. Default http.DefaultTransport.
	Base http.RoundTripper
	// Header is set. Default "Idempotency-Key".
	Header string
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base, header := t.Base, t.Header
	if base == nil {
		base = http.DefaultTransport
	}
	if header == "" {
		header = "Idempotency-Key"
	}
	in, ok := req.Context().Value(stepKey{}).(*inStep)
	if !ok || req.Header.Get(header) != "" || safe(req.Method) {
		return base.RoundTrip(req)
	}
	if err := in.claim(req.Method + " " + req.URL.String()); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set(header, in.info.Key)
	return base.RoundTrip(req)
}

func safe(method string) bool {
	switch method {
	case http.MethodGet, "", http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func (in *inStep) claim(target string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.target != "" && in.target != target {
		return fmt.Errorf("steps: the step called %s before %s with one key: make each a step of its own", in.target, target)
	}
	in.target = target
	return nil
}
