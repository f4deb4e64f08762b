package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ibid-go/ibid"
)

// A record that cannot be understood fails closed: it is not absent, and not
// an answer.
var damages = []clause{
	{"a damaged record is not run again", "work whose result was damaged would run twice", func(e *env) {
		for _, d := range damage {
			k, _ := e.completed("a result that is long enough to be hit")
			e.corrupt(k, d.change)
			if e.failed() {
				return
			}
			r, err := e.store.Begin(e.ctx, k, e.taker())
			e.damaged("Begin after "+d.name, r, err)
		}
	}},
	{"a damaged record is not shown", "an altered result would be taken for the answer", func(e *env) {
		for _, d := range damage {
			k, _ := e.completed("a result that is long enough to be hit")
			e.corrupt(k, d.change)
			if e.failed() {
				return
			}
			r, err := e.store.Look(e.ctx, k)
			e.damaged("Look after "+d.name, r, err)
		}
	}},
	{"a damaged claim is not written over", "nobody knows whose claim it was", func(e *env) {
		for _, d := range damage {
			k, c := e.owned()
			e.corrupt(k, d.change)
			if e.failed() {
				return
			}
			e.damaged("Extend after "+d.name, ibid.Record{}, e.store.Extend(e.ctx, k, c.Token, long))
			e.damaged("Complete after "+d.name, ibid.Record{}, e.store.Complete(e.ctx, k, c.Token, []byte("receipt"), ibid.Keep{Retain: long}))
			e.damaged("Release after "+d.name, ibid.Record{}, e.store.Release(e.ctx, k, c.Token))
			r, err := e.store.Begin(e.ctx, k, e.taker())
			e.damaged("Begin after "+d.name, r, err)
		}
	}},
	{"a record moved to another key is damaged", "one caller would be answered with another's result", func(e *env) {
		k1, _ := e.completed("one")
		k2, _ := e.completed("two")
		var stolen []byte
		e.corrupt(k1, func(b []byte) []byte { stolen = bytes.Clone(b); return b })
		e.corrupt(k2, func([]byte) []byte { return stolen })
		if e.failed() {
			return
		}
		r, err := e.store.Look(e.ctx, k2)
		e.damaged("Look", r, err)
		e.answers(k1, "one")
	}},
	{"Forget with the zero token drops a damaged record", "the key could never be used again", func(e *env) {
		s, ok := ability[ibid.Inspector](e, "an Inspector")
		if !ok {
			return
		}
		for _, d := range damage {
			k, c := e.completed("one")
			e.corrupt(k, d.change)
			if e.failed() {
				return
			}
			err := s.Forget(e.ctx, k, c.Token, long)
			e.want(err != nil, "Forget after %s, with a token that nobody can read, reports no error", d.name)
			e.forget(k, ibid.Token{}, long)
			r := e.granted(k, e.claim())
			e.want(r.Generation > 0 && r.Attempt == 1 && r.Result == nil, "forgotten after %s, the key shows %s, want attempt 1 of another generation", d.name, show(r))
		}
	}},
	{"a damaged record harms no other", "one bad block would stop everyone", func(e *env) {
		k1, _ := e.completed("one")
		k2, _ := e.completed("two")
		e.corrupt(k1, damage[0].change)
		e.answers(k2, "two")
		e.granted(e.key(), e.claim())
		if s, ok := ibid.As[ibid.Inspector](e.store); ok && !e.failed() {
			entries, err := s.List(e.ctx, ibid.Filter{}, ibid.Digest{}, 1000)
			e.want(err == nil && len(entries) >= 2, "List shows %d records, %v, want those that can be read", len(entries), err)
		}
		if _, ok := ibid.As[ibid.Sweeper](e.store); ok {
			e.sweep(1000)
		}
	}},
}

// damage is what disks, and newer programs, do to records.
var damage = []struct {
	name   string
	change func([]byte) []byte
}{
	{"a flipped bit in the middle", flip(2)},
	{"a flipped bit at the beginning", flip(1 << 20)},
	{"a flipped bit near the beginning", flip(20)},
	{"a flipped bit in the last quarter", func(b []byte) []byte { b[len(b)*7/8] ^= 0x10; return b }},
	{"a flipped bit at the end", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
	{"a missing tail", func(b []byte) []byte { return b[:len(b)-len(b)/4] }},
	{"a missing byte", func(b []byte) []byte { return b[:len(b)-1] }},
	{"a byte too many", func(b []byte) []byte { return append(b, 0) }},
	{"zeros", func(b []byte) []byte { return make([]byte, len(b)) }},
	{"nothing left", func([]byte) []byte { return []byte{} }},
}

// flip returns a change of one bit, the n-th part of the record in.
func flip(n int) func([]byte) []byte {
	return func(b []byte) []byte { b[len(b)/n] ^= 0x04; return b }
}

// corrupt changes what the store keeps of k, and ends the case if that cannot
// be done.
func (e *env) corrupt(k ibid.Digest, change func([]byte) []byte) {
	if e.failed() {
		return
	}
	if e.target.Corrupt == nil {
		e.err = NeedsCorrupt
		return
	}
	if err := e.target.Corrupt(e.ctx, e.store, k, func(b []byte) []byte { return change(bytes.Clone(b)) }); err != nil {
		e.failf("corrupt the record: %w", err)
	}
}

func (e *env) damaged(what string, r ibid.Record, err error) {
	var shown string
	if err == nil {
		shown = fmt.Sprintf(" with %s", show(r))
	}
	e.want(errors.Is(err, ibid.ErrDamaged), "%s: %v%s, want ErrDamaged", what, err, shown)
}
