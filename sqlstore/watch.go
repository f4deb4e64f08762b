package sqlstore

import (
	"context"
	"sync"

	"github.com/ibid-go/ibid"
)

// watchers are those in this process who wait for keys. The zero value has none.
type watchers struct {
	mu   sync.Mutex
	keys map[ibid.Digest]map[chan struct{}]bool // key → channels to close
}

// Watch implements ibid.Notifier for writes of this store in this process, and
// not for those of others, nor for CompleteTx, whose commit is the caller's.
func (s *SQLite) Watch(_ context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	changed, stop := s.watch.add(key)
	return changed, stop, nil
}

func (w *watchers) add(key ibid.Digest) (<-chan struct{}, func()) {
	ch := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil {
		w.keys = make(map[ibid.Digest]map[chan struct{}]bool)
	}
	if w.keys[key] == nil {
		w.keys[key] = make(map[chan struct{}]bool)
	}
	w.keys[key][ch] = true
	return ch, func() { w.remove(key, ch) }
}

func (w *watchers) remove(key ibid.Digest, ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys[key], ch)
	if len(w.keys[key]) == 0 {
		delete(w.keys, key)
	}
}

// wake lets those go on who wait for one of keys.
func (w *watchers) wake(keys []ibid.Digest) {
	if len(keys) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		for ch := range w.keys[key] {
			close(ch)
		}
		delete(w.keys, key)
	}
}
