package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ibid-go/ibid"
)

// Request is what is kept of an operation so that it can be finished when nobody
// asks for it again. Nothing of a request is kept unless Keep is called.
type Request struct {
	// Name selects the handler of Recover. Required.
	Name string
	// Call is what the operation is asked for with: key and fingerprint. Keep
	// fills it in.
	Call ibid.Call
	// Method, Path and Header are those of an HTTP request. Path may have a
	// query. Header has only what the program chose: no credentials.
	Method string
	Path   string
	Header http.Header
	// Body is the request's, or whatever input the handler needs.
	Body []byte
}

// HTTPRequest returns what Keep keeps of r: its method, path and query, the named
// headers, and body, which is what the handler has read. The idempotency key is
// one of the headers to name, if the request is to be sent again from outside. Its
// Name is r's pattern, or method and path where http.ServeMux did not set one.
func HTTPRequest(r *http.Request, body []byte, headers ...string) Request {
	k := Request{Name: r.Pattern, Method: r.Method, Path: r.URL.RequestURI(), Header: make(http.Header), Body: body}
	if k.Name == "" {
		k.Name = r.Method + " " + r.URL.Path
	}
	for _, name := range headers {
		if v := r.Header.Values(name); len(v) > 0 {
			k.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
	return k
}

// Keep keeps r, sealed, until the operation is forgotten or its window ends. Call
// it before the first step: what vanishes before is not re-driven. ErrInvalid
// reports an engine without Options.Seal: a request would lie readable in
// the store.
func (op *Op) Keep(ctx context.Context, r Request) error {
	e, ok := ibid.EngineFrom(ctx)
	switch {
	case !ok || !e.Seals():
		return fmt.Errorf("%w: steps: Keep: the engine has no Options.Seal", ibid.ErrInvalid)
	case r.Name == "":
		return fmt.Errorf("%w: steps: Keep: Request.Name is empty", ibid.ErrInvalid)
	}
	r.Call, _ = ibid.CallFrom(ctx)
	data, err := json.Marshal(kept{
		Name: r.Name, Scope: []byte(r.Call.Key.Scope), ID: []byte(r.Call.Key.ID), Fingerprint: r.Call.Fingerprint[:],
		Method: r.Method, Path: r.Path, Header: r.Header, Body: r.Body,
	})
	if err != nil {
		return fmt.Errorf("%w: steps: Keep: %w", ibid.ErrInvalid, err)
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	before := op.state.request
	if string(before) == string(data) {
		return nil // an earlier attempt kept it
	}
	op.state.request = data
	if err := op.save(ctx); err != nil {
		op.state.request = before
		return fmt.Errorf("steps: keep the request: %w", err)
	}
	return nil
}

// kept is a Request at rest. Keys are bytes: they need not be UTF-8.
type kept struct {
	Name        string      `json:"name"`
	Scope       []byte      `json:"scope"`
	ID          []byte      `json:"id"`
	Fingerprint []byte      `json:"fingerprint"`
	Method      string      `json:"method,omitempty"`
	Path        string      `json:"path,omitempty"`
	Header      http.Header `json:"header,omitempty"`
	Body        []byte      `json:"body,omitempty"`
}

// RequestOf returns the request that was kept of an operation that Engine.List or
// Engine.Inspect returned; false when none was. ErrDamaged reports one
// that cannot be opened or read.
func RequestOf(e *ibid.Engine, o ibid.Operation) (Request, bool, error) {
	data, err := e.OpenSteps(o)
	if err != nil {
		return Request{}, false, err
	}
	s, err := decode(data)
	if err != nil || s.request == nil {
		return Request{}, false, err
	}
	var k kept
	if err := json.Unmarshal(s.request, &k); err != nil {
		return Request{}, false, fmt.Errorf("%w: kept request: %w", ibid.ErrDamaged, err)
	}
	r := Request{
		Name: k.Name, Method: k.Method, Path: k.Path, Header: k.Header, Body: k.Body,
		Call: ibid.Call{Key: ibid.Key{Scope: string(k.Scope), ID: string(k.ID)}},
	}
	if len(k.Fingerprint) != len(r.Call.Fingerprint) || e.Digest(r.Call.Key) != o.Key {
		return Request{}, false, fmt.Errorf("%w: kept request belongs to another operation", ibid.ErrDamaged)
	}
	copy(r.Call.Fingerprint[:], k.Fingerprint)
	return r, true, nil
}
