package ibidhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

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
	r := x.request(ctx, &w.body)
	defer removeFiles(r, x.r)
	h.ServeHTTP(w, r)
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
