package memstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// watch is one channel for all who wait for a key; the next change closes it.
type watch struct {
	changed chan struct{}
	callers int
}

// Watch implements ibid.Notifier. It also wakes when the key is forgotten.
func (s *Store) Watch(ctx context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	sh, _ := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w := sh.waits[key]
	if w == nil {
		w = &watch{changed: make(chan struct{})}
		if sh.waits == nil {
			sh.waits = make(map[ibid.Digest]*watch)
		}
		sh.waits[key] = w
	}
	w.callers++
	stop := sync.OnceFunc(func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if w.callers--; w.callers == 0 && sh.waits[key] == w {
			delete(sh.waits, key)
		}
	})
	return w.changed, stop, nil
}

// wake tells those who wait for key.
func (sh *shard) wake(key ibid.Digest) {
	if w := sh.waits[key]; w != nil {
		close(w.changed)
		delete(sh.waits, key)
	}
}

// Sweep implements ibid.Sweeper. Calling it is optional: claims drop what is
// over, a few records each.
func (s *Store) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	for i := range s.shards {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		if deleted >= limit {
			break
		}
		sh := &s.shards[i]
		sh.mu.Lock()
		deleted += sh.drop(s, s.clock.now(), limit-deleted)
		sh.mu.Unlock()
	}
	return deleted, nil
}

// List implements ibid.Inspector. It reads every record for each page. A
// damaged record is left out.
func (s *Store) List(ctx context.Context, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	var page []ibid.Entry
	var last *ibid.Digest // of a full page: keys above it are not wanted
	trim := func() {
		slices.SortFunc(page, func(a, b ibid.Entry) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		if len(page) >= limit {
			page = page[:limit]
			key := page[limit-1].Key
			last = &key
		}
	}
	if limit <= 0 {
		return nil, ctx.Err()
	}
	for i := range s.shards {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sh := &s.shards[i]
		sh.mu.Lock()
		now := s.clock.now()
		for _, at := range sh.queue {
			slot := sh.table.slot(int(at))
			if bytes.Compare(slot.key[:], after[:]) <= 0 || last != nil && bytes.Compare(slot.key[:], last[:]) > 0 {
				continue
			}
			r, err := record.Decode(slot.key, slot.data)
			if err != nil {
				continue
			}
			view := r.View(now)
			view.Result = nil
			if filter.Match(view) && view.State != ibid.Absent {
				page = append(page, ibid.Entry{Key: slot.key, Record: own(view)})
			}
			if len(page) >= 2*limit {
				trim()
			}
		}
		sh.mu.Unlock()
	}
	trim()
	return page, nil
}

// Forget implements ibid.Inspector.
func (s *Store) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := sh.find(&key, hash)
	now := s.clock.now()
	r, err := sh.load(at, &key)
	if errors.Is(err, ibid.ErrDamaged) && token.IsZero() {
		r, err = record.Damaged(now), nil
	}
	if err != nil {
		return err
	}
	if err := r.Forget(token, window, now); err != nil {
		return err
	}
	sh.save(s, at, &r)
	sh.wake(key)
	return nil
}

// Requeue implements ibid.Requeuer.
func (s *Store) Requeue(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := sh.find(&key, hash)
	r, err := sh.load(at, &key)
	if err != nil {
		return err
	}
	if err := r.Requeue(token, window, s.clock.now()); err != nil {
		return err
	}
	sh.save(s, at, &r)
	sh.wake(key)
	return nil
}

// Checkpoint implements ibid.Checkpointer.
func (s *Store) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, steps []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh, hash := s.shard(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := sh.find(&key, hash)
	r, err := sh.load(at, &key)
	if err != nil {
		return err
	}
	if err := r.Checkpoint(token, steps, s.clock.now()); err != nil {
		return err
	}
	sh.save(s, at, &r)
	return nil
}

// Describe implements ibid.Describer: nothing survives the process.
func (s *Store) Describe(ctx context.Context) (ibid.Description, error) {
	const elsewhere = "records live in this process's memory: use a store on disk, or a server"
	return ibid.Description{
		Store: "memory",
		Advice: map[ibid.Survival]string{
			ibid.ProcessKill: elsewhere,
			ibid.ServerKill:  elsewhere,
			ibid.PowerLoss:   "records live in this process's memory: use a store that writes to disk before it acknowledges",
			ibid.Failover:    "records live in this process's memory: use a server that replicates before it acknowledges",
		},
	}, ctx.Err()
}
