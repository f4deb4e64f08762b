package memstore

import "github.com/ibid-go/ibid"

// Corrupt replaces the bytes kept of key by what change makes of them.
func (s *Store) Corrupt(key ibid.Digest, change func([]byte) []byte) {
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if at := sh.find(&key, hash); at != none {
		slot := sh.table.slot(at)
		slot.data = change(slot.data)
	}
}

// Held returns how many records, and how many waited-for keys, are held.
func (s *Store) Held() (records, waits int) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		records += len(sh.queue)
		waits += len(sh.waits)
		sh.mu.Unlock()
	}
	return records, waits
}

// Counted returns the records and bytes that the bounds are compared with.
func (s *Store) Counted() (records, bytes int64) { return s.records.Load(), s.bytes.Load() }
