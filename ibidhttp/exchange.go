package ibidhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp/internal/answer"
)

// exchange is one guarded request and its answer. Exchanges are pooled, with
// their buffers: what outlives a request, because the handler may have kept it,
// is in the recorder, which is not.
type exchange struct {
	m     *middleware
	work  ibid.Work   // x.run
	probe ibid.Prober // x.ask

	w        http.ResponseWriter
	r        *http.Request
	next     http.Handler
	call     ibid.Call
	body     []byte // of the request
	bodyRead bool
	scratch  []byte
	parts    [2][]byte // of the fingerprint
	cell     *cell     // of the scope's limits; nil without
	counted  bool      // as a new key

	recorder *recorder
	ran      bool // the handler was called
	claimed  bool // under a claim of its own
	direct   bool // the handler's header is that of w
	streamed bool // the answer went out as it was written
	over     bool // nothing panicked

	// The handler's answer.
	status   int
	noType   bool
	fields   []answer.Field
	headers  int // of fields, the others are trailers
	declared []string
	out      []byte
	spool    *spool
	spoolErr error
	encoded  []byte // as it is to be recorded
	result   []byte // what was returned to the engine; parts of encoded
}

// errReleased is what work returns to free the key.
var errReleased = errors.New("ibidhttp: the handler's answer is not kept")

// run is the work: it runs the handler and returns its answer as it is recorded.
func (x *exchange) run(ctx context.Context) ([]byte, error) {
	if x.ran {
		x.discard() // the transaction is run again: its first answer was never given
	}
	x.ran = true
	if x.m.o.Streaming {
		return x.stream(ctx)
	}
	x.handle(ctx, x.next)
	return x.encode(ctx)
}

// handle calls h and takes what it answers.
func (x *exchange) handle(ctx context.Context, h http.Handler) {
	w := &recorder{x: x}
	x.recorder = w
	if w.header = x.w.Header(); len(w.header) == 0 {
		x.direct = true
	} else {
		w.header = make(http.Header)
	}
	h.ServeHTTP(w, x.request(ctx, &w.body))
	w.finish()
}

// request returns the request as the handler gets it: with the work's context
// and a body that has been read already.
func (x *exchange) request(ctx context.Context, body *requestBody) *http.Request {
	r := x.r.WithContext(ctx)
	r.ContentLength = int64(len(x.body))
	r.TransferEncoding, r.GetBody = nil, nil
	if len(x.body) == 0 {
		r.Body = http.NoBody
	} else {
		body.rest = x.body
		r.Body = body
	}
	return r
}

// unguarded returns the request of a caller that needs no key; its body may have
// been read in search of one.
func (x *exchange) unguarded() *http.Request {
	if !x.bodyRead {
		return x.r
	}
	r := x.r.WithContext(x.r.Context())
	r.ContentLength = int64(len(x.body))
	r.TransferEncoding, r.GetBody = nil, nil
	r.Body = io.NopCloser(bytes.NewReader(bytes.Clone(x.body)))
	return r
}

// encode returns the answer as it is recorded, or errReleased.
func (x *exchange) encode(ctx context.Context) ([]byte, error) {
	if !x.m.o.Kept(x.status, x.recorder.header) {
		return nil, errReleased
	}
	if x.status >= http.StatusBadRequest {
		ibid.UndoWrites(ctx) // a refusal: its record is kept, and none of its writes
	}
	x.result = x.record()
	return x.result, nil
}

// record returns the bytes of the handler's answer.
func (x *exchange) record() []byte {
	a := answer.Answer{Status: x.status, NoType: x.noType, Fields: x.fields, Body: x.out}
	if x.spool != nil || x.spoolErr != nil {
		a = notKept(x.status, x.field("Location"))
	}
	x.encoded = a.Append(x.encoded[:0])
	return x.encoded
}

func notKept(status int, location string) answer.Answer {
	a := answer.Answer{Status: status, NotKept: true}
	if location != "" {
		a.Fields = []answer.Field{{Name: "Location", Value: location}}
	}
	return a
}

// ask is the probe: it records what Options.Probe answers in the handler's place.
func (x *exchange) ask(ctx context.Context) (ibid.Found, []byte, error) {
	found := ibid.FoundUnknown
	x.handle(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { found = x.m.o.Probe(w, r) }))
	if found == ibid.FoundDone {
		x.result = x.record()
		return found, x.result, nil
	}
	x.discard()
	return found, nil, nil
}

// discard forgets what the handler answered.
func (x *exchange) discard() {
	if x.recorder != nil {
		x.recorder.detach()
		x.recorder = nil
	}
	if x.direct {
		clear(x.w.Header())
		x.direct = false
	}
	if x.spool != nil {
		x.spool.close()
	}
	clear(x.fields)
	x.spool, x.spoolErr, x.result = nil, nil, nil
	x.status, x.noType, x.headers = 0, false, 0
	x.fields, x.declared, x.out = x.fields[:0], x.declared[:0], x.out[:0]
}

// answer sends what Do returned.
func (x *exchange) answer(result []byte, out ibid.Outcome, err error) {
	if err != nil {
		x.encoded = nil // the engine may still be recording it
	}
	switch {
	case x.streamed:
	case err == nil && x.result != nil && !out.Replayed && bytes.Equal(result, x.result) && x.spoolErr == nil:
		x.live(out)
	case err == nil:
		x.replay(result, out)
	case errors.Is(err, errReleased) && !errors.Is(err, ibid.ErrUnknown):
		if x.spoolErr != nil {
			panic(http.ErrAbortHandler) // what is left of the answer is not the answer
		}
		out.Expires = 0
		x.live(out)
	default:
		x.discard()
		p := x.m.problemOf(err)
		p.write(x.w, x.r)
	}
}

// live sends the answer that the handler of this request gave.
func (x *exchange) live(out ibid.Outcome) {
	if x.spool != nil {
		out.Expires = 0
	}
	dst := x.w.Header()
	if x.direct {
		x.repair(dst)
	}
	x.send(dst, x.out, out)
}

// replay sends a recorded answer.
func (x *exchange) replay(result []byte, out ibid.Outcome) {
	x.discard()
	a := answer.Answer{Fields: x.fields}
	if err := a.Decode(result); err != nil {
		p := x.m.problemOf(ibid.ErrDamaged)
		p.write(x.w, x.r)
		return
	}
	x.fields, x.status, x.noType = a.Fields, a.Status, a.NoType
	if a.NotKept {
		p := x.m.problemOf(ibid.ErrNotKept)
		p.firstStatus, p.firstLocation = a.Status, x.field("Location")
		p.write(x.w, x.r)
		return
	}
	for x.headers < len(x.fields) && !x.fields[x.headers].Trailer {
		x.headers++
	}
	x.send(x.w.Header(), a.Body, out)
}

// repair makes dst, the header that the handler wrote to, what it was when the handler
// answered: it may have been changed since.
func (x *exchange) repair(dst http.Header) {
	for name := range dst {
		if !x.has(name) {
			delete(dst, name)
		}
	}
}

func (x *exchange) has(name string) bool {
	for i := range x.fields[:x.headers] {
		if x.fields[i].Name == name {
			return true
		}
	}
	return false
}

// send sends x's answer: dst holds what others have set already. A header of
// the answer takes the place of theirs, except for Vary, which adds to it.
func (x *exchange) send(dst http.Header, body []byte, out ibid.Outcome) {
	m := x.m
	values := newValues(len(x.fields) + 4)
	x.set(dst, &values)
	if x.noType {
		dst["Content-Type"] = nil
	}
	if len(dst["Cache-Control"]) == 0 {
		dst["Cache-Control"] = noStore
	}
	if out.Replayed && m.o.ReplayMarker != "" {
		dst[m.o.ReplayMarker] = isTrue
	}
	if out.Expires > 0 && m.o.ExpiresHeader != "" {
		dst[m.o.ExpiresHeader] = m.expiresIn(seconds(out.Expires))
	}
	if out.Guard != "" && m.o.DegradedMarker != "" {
		dst[m.o.DegradedMarker] = []string{answer.CleanValue(out.Guard)}
	}
	trailers := x.fields[x.headers:]
	size := int64(len(body))
	if x.spool != nil {
		size = x.spool.size
	}
	delete(dst, "Content-Length")
	switch {
	case len(trailers) > 0:
		announce(dst, trailers, &values)
	case size > 2048 && hasBody(x.status):
		// The server counts shorter ones itself.
		dst["Content-Length"] = values.one(strconv.FormatInt(size, 10))
	}
	x.w.WriteHeader(x.status)
	switch {
	case !hasBody(x.status):
	case x.spool != nil:
		if x.spool.send(x.w) != nil {
			panic(http.ErrAbortHandler) // the caller must not take what it got for all
		}
	case size > 0:
		x.w.Write(body) //nolint:errcheck // the caller is gone
	}
	for i := range trailers {
		delete(dst, trailers[i].Name)
	}
	for i := range trailers {
		dst.Add(trailers[i].Name, trailers[i].Value)
	}
}

// set puts the headers of x into dst. Lines that are there already, because
// dst is the header that the handler wrote to, stay.
func (x *exchange) set(dst http.Header, values *values) {
	fields := x.fields[:x.headers]
	for len(fields) > 0 {
		name, n := fields[0].Name, 1
		for n < len(fields) && fields[n].Name == name {
			n++
		}
		lines := fields[:n]
		fields = fields[n:]
		have := dst[name]
		switch {
		case sameLines(have, lines):
		case name == "Vary" && !x.direct && len(have) > 0:
			for i := range lines {
				dst.Add(name, lines[i].Value)
			}
		default:
			dst[name] = values.all(lines)
		}
	}
}

func sameLines(have []string, lines []answer.Field) bool {
	if len(have) != len(lines) {
		return false
	}
	for i := range have {
		if have[i] != lines[i].Value {
			return false
		}
	}
	return true
}

func announce(dst http.Header, trailers []answer.Field, values *values) {
	var names []string
	for i := range trailers {
		if i == 0 || trailers[i].Name != trailers[i-1].Name {
			names = append(names, trailers[i].Name)
		}
	}
	dst["Trailer"] = names
}

// values hands out the value lists of a header from one allocation, made when
// the first is asked for.
type values struct {
	free []string
	n    int
}

func newValues(n int) values { return values{n: n} }

func (v *values) all(lines []answer.Field) []string {
	start := v.grow(len(lines))
	for i := range lines {
		v.free = append(v.free, lines[i].Value)
	}
	return v.free[start:len(v.free):len(v.free)]
}

func (v *values) one(s string) []string {
	start := v.grow(1)
	v.free = append(v.free, s)
	return v.free[start:len(v.free):len(v.free)]
}

func (v *values) grow(n int) int {
	if len(v.free)+n > cap(v.free) {
		v.free = make([]string, 0, max(v.n, n))
	}
	return len(v.free)
}

// expiry is a value of the expires header. First answers have the same one
// again and again.
type expiry struct {
	seconds int64
	value   []string
}

func (m *middleware) expiresIn(s int64) []string {
	if e := m.expires.Load(); e != nil && e.seconds == s {
		return e.value
	}
	e := &expiry{seconds: s, value: []string{strconv.FormatInt(s, 10)}}
	m.expires.Store(e)
	return e.value
}

// end gives back what the exchange holds. After a panic the exchange itself is
// left to the garbage collector.
func (x *exchange) end() {
	x.m.limits.leave(x)
	if x.spool != nil {
		x.spool.close()
		x.spool = nil
	}
	if x.recorder != nil {
		x.recorder.detach()
	}
	if !x.over {
		if x.direct {
			clear(x.w.Header())
		}
		return
	}
	x.direct = false // the header has been sent
	x.discard()
	x.recycle()
}

// maxPooled bounds the buffers that are kept for later requests.
const maxPooled = 64 << 10

func (x *exchange) recycle() {
	keep := func(b []byte) []byte {
		if cap(b) > maxPooled {
			return nil
		}
		return b[:0]
	}
	*x = exchange{
		m: x.m, work: x.work, probe: x.probe,
		body: keep(x.body), scratch: keep(x.scratch), out: keep(x.out), encoded: keep(x.encoded),
		fields: x.fields[:0], declared: x.declared[:0],
	}
	x.fresh()
	x.m.pool.Put(x)
}

// fresh fills in what is the same for every request.
func (x *exchange) fresh() {
	x.call.Policy, x.call.Tx = &x.m.o.policy, x.m.o.Tx
	if x.m.o.Probe != nil {
		x.call.Probe = x.probe
	}
}

// appendJoined appends s as ibid.Join does.
func appendJoined(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

func unescapePath(path, otherwise string) string {
	if p, err := url.PathUnescape(path); err == nil {
		return p
	}
	return otherwise
}
