package ibidhttp

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibid-go/ibid"
)

// New returns a middleware that runs a handler once per key. Scope is required:
// ByPrincipal, ByHeader or SharedByAll. New panics when an option cannot be
// used as given, with an error that is ibid.ErrInvalid and names the field.
func New(engine *ibid.Engine, scope Scope, opts *Options) func(http.Handler) http.Handler {
	o, err := opts.complete(engine, scope)
	if err != nil {
		panic(err)
	}
	rules, err := o.headerRules()
	if err != nil {
		panic(err)
	}
	m := &middleware{engine: engine, scope: scope, o: o, rules: rules, limits: newLimiter(&o.Limits)}
	m.retryAfter = o.policy.RetryAfter
	or(&m.retryAfter, ibid.DefaultRetryAfter)
	m.pool.New = func() any {
		x := &exchange{m: m}
		x.work, x.probe = x.run, x.ask
		x.fresh()
		return x
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	engine     *ibid.Engine
	scope      Scope
	o          *settings
	rules      headerRules
	limits     *limiter // nil without limits
	retryAfter time.Duration
	pool       sync.Pool // of *exchange
	expires    atomic.Pointer[expiry]
}

// serve answers one request. Whatever is wrong with it is found before the key is
// claimed.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !m.guards(r) {
		next.ServeHTTP(w, r)
		return
	}
	x := m.pool.Get().(*exchange)
	x.w, x.r, x.next = w, r, next
	p, guarded := x.prepare()
	switch {
	case !guarded && p.status == 0:
		passed := x.unguarded()
		x.recycle()
		defer removeFiles(passed, r)
		next.ServeHTTP(w, passed)
		return
	case p.status != 0:
		p.write(w, r)
		x.recycle()
		return
	}
	defer x.end() // after a panic, too
	if p := x.admit(); p.status != 0 {
		p.write(w, r)
	} else {
		result, out, err := m.engine.Do(r.Context(), x.call, x.work)
		x.claimed = x.ran && !out.Replayed
		x.answer(result, out, err)
	}
	x.over = true
}

func (m *middleware) guards(r *http.Request) bool {
	if m.o.Guards != nil {
		return m.o.Guards(r)
	}
	return slices.Contains(m.o.Methods, r.Method)
}

// prepare reads the key and the body and fills in x.call. It reports a problem,
// or that the request carries no key and need not.
func (x *exchange) prepare() (p problem, guarded bool) {
	m, r := x.m, x.r
	var key string
	var from source
	var err error
	if !m.o.Key.needsBody() {
		if key, from, p, guarded = x.readKey(nil); !guarded {
			return p, false
		}
	}
	if x.body, err = readBody(x.body[:0], r, m.o.MaxBody); err != nil {
		return bodyProblem(err), false
	}
	if len(x.body) == 0 && bodyGone(r) {
		return bodyProblem(errBodyGone), false
	}
	x.bodyRead = true
	if m.o.Key.needsBody() {
		if key, from, p, guarded = x.readKey(x.body); !guarded {
			return p, false
		}
	}
	path := pathOf(r)
	x.identify(path, key, from)
	var rest []byte
	if x.scratch, rest, err = m.o.printer.append(x.scratch[:0], r, path, x.body); err != nil {
		return problem{typ: TypeBodyInvalid, title: "Body cannot be compared", status: http.StatusBadRequest, detail: sentence(err)}, false
	}
	x.parts[0], x.parts[1] = x.scratch, rest
	x.call.Fingerprint = m.engine.Fingerprint(x.parts[:]...)
	return problem{}, true
}

// readKey returns the key and where it was found, and sets the scope. Without
// them the request is not guarded: p is the problem, unless it needs none.
func (x *exchange) readKey(body []byte) (key string, from source, p problem, guarded bool) {
	m := x.m
	key, from, err := m.o.Key.read(x.r, body)
	if err != nil || key == "" {
		return "", from, m.noKey(err), false
	}
	if err := m.o.checkKey(key); err != nil {
		return "", from, m.noKey(err), false
	}
	if x.call.Key.Scope = m.scope(x.r); x.call.Key.Scope == "" {
		return "", from, m.noScope(), false
	}
	return key, from, problem{}, true
}

// identify sets the key and the label of the call: one string holds both.
func (x *exchange) identify(path, key string, from source) {
	b := x.scratch[:0]
	if x.m.o.KeySpace == PerRoute {
		b = appendJoined(b, x.r.Method)
		b = appendJoined(b, path)
	}
	if from != sourceHeader {
		b = appendJoined(b, string(from))
	}
	b = appendJoined(b, key)
	id := len(b)
	b = append(b, x.r.Method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, ' ')
	b = append(b, key...)
	s := string(b)
	x.call.Key.ID, x.call.Label = s[:id], s[id:]
	x.scratch = b
}

// appendJoined appends s as ibid.Join does.
func appendJoined(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

// pathOf returns the path that the client asked for, unescaped. It is taken from
// the request line, so that two routes behind http.StripPrefix are not one.
func pathOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if path == "" || path[0] != '/' {
		return r.URL.Path
	}
	if strings.IndexByte(path, '%') >= 0 {
		return unescapePath(path, r.URL.Path)
	}
	return path
}

func unescapePath(path, otherwise string) string {
	if p, err := url.PathUnescape(path); err == nil {
		return p
	}
	return otherwise
}

// noKey is the answer to a request whose key is malformed or missing; no problem if
// it may be missing.
func (m *middleware) noKey(err error) problem {
	switch {
	case err != nil:
		return problem{typ: TypeKeyMalformed, title: "Key malformed", status: http.StatusBadRequest, detail: sentence(err)}
	case m.o.Required:
		return problem{
			typ: TypeKeyMissing, title: "Key required", status: http.StatusBadRequest,
			detail: "This request must carry an idempotency key" + m.o.Key.where() + ": the same for every retry, another for every new request.",
		}
	}
	return problem{}
}

func (m *middleware) noScope() problem {
	return problem{
		typ: TypeScopeMissing, title: "Caller not known", status: m.o.Statuses.MissingScope,
		detail: "It cannot be told whose key this is. Authenticate, and send the request again.",
	}
}

func bodyProblem(err error) problem {
	if errors.Is(err, errBodyTooLarge) {
		return problem{
			typ: TypeBodyTooLarge, title: "Body too large", status: http.StatusRequestEntityTooLarge, closing: true,
			detail: "The request body is larger than a request with an idempotency key may have. Nothing was carried out.",
		}
	}
	if errors.Is(err, errBodyGone) {
		return problem{
			typ: TypeMisconfigured, title: "Cannot guard this request", status: http.StatusInternalServerError,
			detail: "Something in front of the idempotency check has read the request body, so that requests cannot be told apart. Nothing was carried out. The operator of this service must look into it.",
		}
	}
	return problem{
		typ: TypeBodyUnreadable, title: "Body unreadable", status: http.StatusBadRequest, closing: true,
		detail: "The request body ended early or could not be decoded. Nothing was carried out.",
	}
}

// sentence returns the text of an error as a sentence.
func sentence(err error) string {
	s := err.Error()
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + ". Nothing was carried out."
}
