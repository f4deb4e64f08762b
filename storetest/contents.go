package storetest

import (
	"bytes"
	"strings"

	"github.com/ibid-go/ibid"
)

// Bytes go in and come out as they are, and belong to whoever holds them.
var contents = []clause{
	{"an empty result is a result", "work without an answer would run again", func(e *env) {
		k, _ := e.completed("")
		r := e.refused(k, e.claim(), ibid.Completed)
		e.want(len(r.Result) == 0, "the result is %q", r.Result)
	}},
	{"a nil result is an empty one", "the two cannot be told apart by who replays them", func(e *env) {
		k, c := e.owned()
		if e.failed() {
			return
		}
		for _, result := range [][]byte{nil, {}} {
			if err := e.store.Complete(e.ctx, k, c.Token, result, ibid.Keep{Retain: long}); err != nil {
				e.failf("Complete: %w", err)
			}
		}
		e.answers(k, "")
	}},
	{"a result of 1 MiB comes back byte for byte", "a large answer would be cut or refused", func(e *env) {
		var all [256]byte
		for i := range all {
			all[i] = byte(i)
		}
		big := strings.Repeat(string(all[:]), 1<<12)
		k, _ := e.completed(big)
		r := e.refused(k, e.claim(), ibid.Completed)
		e.want(string(r.Result) == big, "%d bytes came back as %d others", len(big), len(r.Result))
	}},
	{"any bytes come back as they are", "a store that reads text alters answers", func(e *env) {
		for _, b := range hostileBytes {
			k, c := e.key(), e.claim()
			c.Label = []byte(b)
			e.granted(k, c)
			e.complete(k, c, b)
			r := e.answers(k, b)
			e.want(string(r.Label) == b, "the label %q came back as %q", b, r.Label)
		}
	}},
	{"any digest is a key of its own", "a store that reads text merges keys", func(e *env) {
		keys := hostileDigests(e.key())
		for i, k := range keys {
			c := e.claim()
			e.granted(k, c)
			e.complete(k, c, string(k[:])+string(rune('a'+i%26)))
		}
		for i, k := range keys {
			e.answers(k, string(k[:])+string(rune('a'+i%26)))
		}
	}},
	{"digests that differ in one bit differ", "a store that shortens keys, or ignores case, merges them", func(e *env) {
		base := e.key()
		e.granted(base, e.claim())
		for bit := range 8 * len(base) {
			k := base
			k[bit/8] ^= 1 << (bit % 8)
			r := e.look(k)
			e.want(r.State == ibid.Absent, "bit %d: shown %s of another key", bit, show(r))
		}
	}},
	{"the result may be changed once Complete returned", "the caller's buffer would change what others are answered", func(e *env) {
		k, c := e.owned()
		if e.failed() {
			return
		}
		result := []byte("receipt")
		if err := e.store.Complete(e.ctx, k, c.Token, result, ibid.Keep{Retain: long}); err != nil {
			e.failf("Complete: %w", err)
		}
		copy(result, "XXXXXXX")
		e.answers(k, "receipt")
	}},
	{"a replayed result may be changed", "one caller would change what the next is answered", func(e *env) {
		k, _ := e.completed("receipt")
		copy(e.begin(k, e.claim()).Result, "XXXXXXX")
		e.answers(k, "receipt")
		copy(e.look(k).Result, "YYYYYYY")
		r := e.refused(k, e.claim(), ibid.Completed)
		e.want(string(r.Result) == "receipt", "the result is %q", r.Result)
		_ = append(r.Result[:0:len(r.Result)], "ZZZZZZZ"...)
		e.answers(k, "receipt")
	}},
	{"the label may be changed once Begin returned", "the caller's buffer would change what operators see", func(e *env) {
		k, c := e.key(), e.claim()
		c.Label = []byte("order 17")
		r := e.granted(k, c)
		copy(c.Label, "XXXXXXXX")
		copy(r.Label, "YYYYYYYY")
		r = e.look(k)
		e.want(string(r.Label) == "order 17", "the label is %q", r.Label)
		copy(r.Label, "ZZZZZZZZ")
		r = e.look(k)
		e.want(string(r.Label) == "order 17", "the label is %q", r.Label)
	}},
	{"the steps may be changed once Checkpoint returned", "the caller's buffer would change what the next attempt skips", func(e *env) {
		k, c := e.owned()
		s, ok := ability[ibid.Checkpointer](e, "a Checkpointer")
		if !ok {
			return
		}
		steps := []byte("step 1")
		if err := s.Checkpoint(e.ctx, k, c.Token, steps); err != nil {
			e.failf("Checkpoint: %w", err)
		}
		copy(steps, "XXXXXX")
		r := e.look(k)
		e.want(string(r.Steps) == "step 1", "the steps are %q", r.Steps)
		copy(r.Steps, "YYYYYY")
		r = e.look(k)
		e.want(string(r.Steps) == "step 1", "the steps are %q", r.Steps)
	}},
}

// hostileBytes are what text, SQL, wildcards, protocols and JSON stumble over.
var hostileBytes = []string{
	"\x00", "a\x00b", "\x00\x00\x00", "\xff\xfe", "\xc3\x28", "\r\n", "*3\r\n$3\r\n", "'; --", `"\'`, "`", "%s%d", "%_*?[a]",
	"{}", "\x1b[0m", " trailing ", "null", "\u202e", "ß", "\n", strings.Repeat("\x00", 300), strings.Repeat("é", 300),
}

// hostileDigests are keys that would merge, or break a statement, if they were
// read as text. Every one of them contains base's first bytes where it can.
func hostileDigests(base ibid.Digest) []ibid.Digest {
	var keys []ibid.Digest
	add := func(b []byte) {
		var k ibid.Digest
		copy(k[:], b)
		keys = append(keys, k)
	}
	add(nil)
	add(bytes.Repeat([]byte{0xff}, len(base)))
	for _, s := range []string{"'", `"`, "\\", "%", "_", "*", "{", "}", ":", "\x00", " ", "\n", "A", "a", "\xe9", "e\u0301"} {
		add(append(bytes.Clone(base[:8]), s...))
		add(append(append(bytes.Clone(base[:9]), s...), "\x00tail"...))
		add(bytes.Repeat([]byte(s), len(base)))
	}
	unique := keys[:0]
	seen := map[ibid.Digest]bool{}
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			unique = append(unique, k)
		}
	}
	return unique
}
