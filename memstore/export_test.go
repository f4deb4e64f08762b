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
