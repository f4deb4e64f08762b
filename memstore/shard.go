package memstore

import (
	"bytes"
	"sync"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// none is the slot of a key of which nothing is kept.
const none = -1

// keySize is the part of a key in MaxBytes.
const keySize = int64(len(ibid.Digest{}))

// scratchMax is the largest encoding buffer that a shard holds on to.
const scratchMax = 4 << 10

// shard is one lock's part of the store. Records at rest are encoded bytes that
// are replaced and never changed, so that what was read under the lock can be
// copied after it. A million records then cost the garbage collector a million
// flat objects, with one pointer each.
type shard struct {
	mu      sync.Mutex
	table   table
	queue   queue
	floor   int64                  // highest fence of a record dropped: the next is above it
	waits   map[ibid.Digest]*watch // key → those who wait for it
	scratch []byte
}

func (sh *shard) find(key *ibid.Digest, hash uint32) int { return sh.table.find(key, hash) }

// load decodes the record in slot at. Its bytes are shared: they must not be
// changed.
func (sh *shard) load(at int, key *ibid.Digest) (record.Record, error) {
	if at == none {
		return record.Record{Fence: sh.floor}, nil
	}
	return record.Decode(*key, sh.table.slot(at).data)
}

// add keeps r under a key of which nothing is kept, if there is room.
func (sh *shard) add(s *Store, key *ibid.Digest, hash uint32, r *record.Record) error {
	data := sh.encode(key, r)
	if !s.reserve(keySize + int64(len(data))) {
		return ibid.ErrFull
	}
	at := sh.table.add(key, hash)
	slot := sh.table.slot(at)
	slot.data, slot.gone = data, r.Gone
	sh.queue.push(&sh.table, at)
	return nil
}

// save replaces the record in slot at.
func (sh *shard) save(s *Store, at int, r *record.Record) {
	slot := sh.table.slot(at)
	data := sh.encode(&slot.key, r)
	s.bytes.Add(int64(len(data) - len(slot.data)))
	slot.data, slot.gone = data, r.Gone
	sh.queue.fix(&sh.table, int(slot.rank))
}

func (sh *shard) encode(key *ibid.Digest, r *record.Record) []byte {
	b := r.Append(sh.scratch[:0], *key)
	if cap(b) <= scratchMax {
		sh.scratch = b
	}
	return bytes.Clone(b)
}

// drop forgets up to limit records that are over at now, oldest first, and
// returns how many it forgot.
func (sh *shard) drop(s *Store, now int64, limit int) (n int) {
	for ; n < limit && len(sh.queue) > 0; n++ {
		at := int(sh.queue[0])
		slot := sh.table.slot(at)
		if slot.gone > now {
			return n
		}
		if r, err := record.Decode(slot.key, slot.data); err == nil {
			sh.floor = max(sh.floor, r.Fence)
		}
		s.records.Add(-1)
		s.bytes.Add(-keySize - int64(len(slot.data)))
		sh.queue.pop(&sh.table)
		sh.table.remove(at)
	}
	if len(sh.queue) == 0 {
		sh.table, sh.queue = table{}, nil
	}
	return n
}

// reserve counts one more record of n bytes, unless the store is full.
func (s *Store) reserve(n int64) bool {
	limit := int64(s.opts.MaxRecords)
	if limit == 0 {
		limit = DefaultMaxRecords
	}
	if s.records.Add(1) > limit && limit > 0 {
		s.records.Add(-1)
		return false
	}
	if s.bytes.Add(n) > s.opts.MaxBytes && s.opts.MaxBytes > 0 {
		s.bytes.Add(-n)
		s.records.Add(-1)
		return false
	}
	return true
}
