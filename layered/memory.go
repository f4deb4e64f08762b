package layered

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// copied is a completed record, as it was when the store was asked.
type copied struct {
	rec  ibid.Record   // its bytes are never changed
	ends time.Duration // how long after that it may be replayed
}

// view returns the record as a caller sees it when age has passed.
func (c copied) view(age time.Duration) ibid.Record {
	r := c.rec
	r.Window = max(r.Window-age, 1)
	r.Result, r.Label, r.Steps = own(r.Result), bytes.Clone(r.Label), bytes.Clone(r.Steps)
	return r
}

// own clones a result: an empty one is one, too.
func own(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

// overhead is about what a copy costs besides its bytes.
const overhead = 512

func (c copied) size() int64 {
	return overhead + int64(len(c.rec.Result)+len(c.rec.Label)+len(c.rec.Steps))
}

// generations is how many counters share the keys; a power of two.
const generations = 1024

// memory holds copies, bounded in number and bytes. What was read is put in its
// place only if the key was not dropped since the reading began.
type memory struct {
	maxRecords int // 0 or less holds nothing
	maxBytes   int64

	mu      sync.Mutex
	dropped [generations]uint64 // part of the keys → how often one of them was dropped
	m       map[ibid.Digest]*list.Element
	used    list.List // of *held, the one used last in front
	bytes   int64
}

type held struct {
	key   ibid.Digest
	c     copied
	asked time.Time
}

func (m *memory) init(maxRecords int, maxBytes int64) {
	m.maxRecords, m.maxBytes = maxRecords, maxBytes
	m.m = make(map[ibid.Digest]*list.Element)
}

func part(key ibid.Digest) int { return int(binary.LittleEndian.Uint16(key[:]) % generations) }

// reading begins a reading of key; put wants what it returns.
func (m *memory) reading(key ibid.Digest) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped[part(key)]
}

// get returns the copy of key, unless it is over.
func (m *memory) get(key ibid.Digest, now time.Time) (ibid.Record, bool) {
	m.mu.Lock()
	e := m.m[key]
	if e == nil {
		m.mu.Unlock()
		return ibid.Record{}, false
	}
	h := e.Value.(*held)
	age := now.Sub(h.asked)
	if age >= h.c.ends {
		m.remove(e)
		m.mu.Unlock()
		return ibid.Record{}, false
	}
	m.used.MoveToFront(e)
	m.mu.Unlock()
	return h.c.view(age), true
}

// put keeps a copy of what was asked for at that moment, or later, in the
// reading that began with seen.
func (m *memory) put(key ibid.Digest, seen uint64, c copied, asked time.Time) {
	if m.maxRecords <= 0 || m.maxBytes >= 0 && c.size() > m.maxBytes {
		return
	}
	c.rec = c.view(0) // the caller's bytes are the caller's
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dropped[part(key)] != seen {
		return
	}
	if e := m.m[key]; e != nil {
		m.remove(e)
	}
	m.m[key] = m.used.PushFront(&held{key, c, asked})
	m.bytes += c.size()
	for len(m.m) > m.maxRecords || m.maxBytes >= 0 && m.bytes > m.maxBytes {
		m.remove(m.used.Back())
	}
}

// drop forgets the copy of key, and lets no reading that has begun bring it back.
func (m *memory) drop(key ibid.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped[part(key)]++
	if e := m.m[key]; e != nil {
		m.remove(e)
	}
}

func (m *memory) remove(e *list.Element) {
	h := m.used.Remove(e).(*held)
	delete(m.m, h.key)
	m.bytes -= h.c.size()
}
