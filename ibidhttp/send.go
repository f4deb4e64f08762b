package ibidhttp

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp/internal/answer"
)

// First answers and replays leave by the same way, send: what it does to one it
// does to the other.

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
		x.w.Write(body) // the caller is gone
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
