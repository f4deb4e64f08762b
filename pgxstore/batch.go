package pgxstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// Sharing, as a policy: while few claims and completions are under way, each goes its own
// way, and pays nothing for the others. Beyond that a call leads:
// it carries those that wait in one round trip and one commit, or, while enough
// batches are under way, waits to be carried. A call that led hands on to the oldest that
// waits, so that no goroutine is needed, and no caller works for others without end.
//
// A batch succeeds as a whole. When it does not, each of its calls is
// asked again by its own caller, alone: an error of one is never another's. That
// is harmless where the batch was applied and the reply lost, since a token
// recognises its own work.

const (
	// batchesAtOnce is how many batches are under way: one is read by the
	// server while the other is written by the client.
	batchesAtOnce = 2
	// batchedResult is the largest result that travels with others.
	batchedResult = 64 << 10
)

type batches struct {
	from, most int
	mu         sync.Mutex
	active     int        // calls under way, in batches or not
	running    int        // calls that lead, or have been told to
	waiting    []*request // oldest first
}

// request is a call that waits.
type request struct {
	key  ibid.Digest
	call *pgsql.Call
	wake chan signal // capacity 1
	err  error       // of the call's own row
}

type signal int

const (
	lead signal = iota
	answered
	alone // the batch failed
)

// write asks c, which writes at key, alone or with others.
func (s *Store) write(ctx context.Context, key ibid.Digest, c *pgsql.Call) error {
	if r := s.batches.enter(key, c); r != nil {
		switch s.share(ctx, r) {
		case answered:
			if again, err := c.Done(r.err); !again {
				s.batches.exit()
				return err
			}
		case lead: // the caller has gone
			s.batches.exit()
			return ctx.Err()
		}
	}
	defer s.batches.exit()
	return pgsql.Ask(ctx, driver{s.pool}, c)
}

// enter counts a call in, and returns a request for it if it should be shared.
func (b *batches) enter(key ibid.Digest, c *pgsql.Call) *request {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active++
	if b.from < 0 || b.active <= b.from || b.most < 2 || !small(c) {
		return nil
	}
	r := &request{key: key, call: c, wake: make(chan signal, 1)}
	for i, a := range c.Args {
		if p, ok := a.([]byte); ok && p != nil {
			// The caller may leave, and use its bytes again, while they are sent.
			c.Args[i] = append(make([]byte, 0, len(p)), p...)
		}
	}
	if b.running < batchesAtOnce {
		b.running++
		r.wake <- lead
	} else {
		b.waiting = append(b.waiting, r)
	}
	return r
}

func small(c *pgsql.Call) bool {
	for _, a := range c.Args {
		if p, ok := a.([]byte); ok && len(p) > batchedResult {
			return false
		}
	}
	return true
}

func (b *batches) exit() {
	b.mu.Lock()
	b.active--
	b.mu.Unlock()
}

// share waits for r to be carried, or carries it. It returns lead when ctx ended
// meanwhile.
func (s *Store) share(ctx context.Context, r *request) signal {
	b := &s.batches
	select {
	case got := <-r.wake:
		if got != lead {
			return got
		}
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.waiting, r); i >= 0 {
			b.waiting = slices.Delete(b.waiting, i, i+1)
			return lead
		}
		select {
		case got := <-r.wake:
			if got == lead {
				b.handOn()
			}
		default: // under way; nobody reads its answer
		}
		return lead
	}
	calls := b.take(r)
	ok := false
	defer func() { // also when a driver panics
		told := alone
		if ok {
			told = answered
		}
		for _, c := range calls[1:] {
			c.wake <- told
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.handOn()
	}()
	if len(calls) == 1 {
		return alone
	}
	ok = s.carry(ctx, slices.Clone(calls)) == nil
	if !ok {
		return alone
	}
	return answered
}

// take returns own and those that wait, no two for one key.
func (b *batches) take(own *request) []*request {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := []*request{own}
	keys := map[ibid.Digest]bool{own.key: true}
	b.waiting = slices.DeleteFunc(b.waiting, func(r *request) bool {
		if len(taken) == b.most || keys[r.key] {
			return false
		}
		keys[r.key] = true
		taken = append(taken, r)
		return true
	})
	return taken
}

// handOn lets the oldest that waits lead. The caller holds mu.
func (b *batches) handOn() {
	if len(b.waiting) == 0 {
		b.running--
		return
	}
	next := b.waiting[0]
	b.waiting = slices.Delete(b.waiting, 0, 1)
	next.wake <- lead
}

// patience bounds how long a batch waits for a row that someone else has locked:
// a transaction that keeps one key must not hold up the others.
const patience = "SELECT set_config('lock_timeout', '100', true)"

// carry asks calls in one transaction. In order of their keys, they wait for
// those of other processes and never in a circle.
func (s *Store) carry(ctx context.Context, calls []*request) (err error) {
	slices.SortFunc(calls, func(a, b *request) int { return bytes.Compare(a.key[:], b.key[:]) })
	var batch pgx.Batch
	batch.Queue(patience)
	for _, r := range calls {
		batch.Queue(r.call.SQL, r.call.Args...)
	}
	results := s.pool.SendBatch(ctx, &batch)
	_, err = results.Exec()
	for _, r := range calls {
		if err != nil {
			break
		}
		r.err = results.QueryRow().Scan(r.call.Dest...)
		if r.err != nil && !errors.Is(r.err, pgx.ErrNoRows) {
			err = r.err
		}
	}
	return errors.Join(err, results.Close()) // that of Close is the commit's
}
