package pgxstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// Sharing, as a policy: a few claims and completions at a time go their own way,
// and pay nothing for the others. While as many are under way as Options.BatchFrom, further
// ones wait; the first of these to end hands on to the one that waits
// longest, which carries all that wait by then in one round trip and one
// commit. So no goroutine is needed, no caller works for others twice, and the busier the
// store is, the more share a commit.
//
// A batch succeeds as a whole. When it does not, each of its calls is
// asked again by its own caller, alone: an error of one is never another's. That
// is harmless where the batch was applied and the reply lost, since a token
// recognises its own work.

// patience is how long a call waits to be carried. Then it leads, beside those
// that are under way: they may wait for locks that others keep.
const patience = 100 * time.Millisecond

// batchedResult is the largest result that travels with others.
const batchedResult = 64 << 10

type batches struct {
	from, most int // see Options; from is more than 0, or none are shared
	mu         sync.Mutex
	running    int        // calls that lead, or have been told to
	waiting    []*request // oldest first
}

// request is a call that waits.
type request struct {
	key  ibid.Digest
	call *pgsql.Call
	wake chan signal // capacity 1
	err  error       // of the call's own row
	read bool        // its row was read
}

type signal int

const (
	lead signal = iota
	answered
	alone // the batch failed
)

// write asks c, which writes at key, alone or with others.
func (s *Store) write(ctx context.Context, key ibid.Digest, c *pgsql.Call) error {
	if s.batches.from > 0 && small(c) {
		r := &request{key: key, call: c}
		told, err := s.batches.enter(ctx, r)
		if err != nil {
			return err
		}
		if told == lead {
			told = s.lead(ctx, r)
		}
		if told == answered {
			if again, err := c.Done(r.err); !again {
				return err
			}
		}
	}
	return pgsql.Ask(ctx, driver{s.pool}, c)
}

// enter returns what r is told to do, or ctx's error.
func (b *batches) enter(ctx context.Context, r *request) (signal, error) {
	b.mu.Lock()
	if b.running < b.from {
		b.running++
		b.mu.Unlock()
		return lead, nil
	}
	for i, a := range r.call.Args {
		if p, ok := a.([]byte); ok && p != nil {
			// The caller may leave, and use its bytes again, while they are sent.
			r.call.Args[i] = append(make([]byte, 0, len(p)), p...)
		}
	}
	r.wake = make(chan signal, 1)
	b.waiting = append(b.waiting, r)
	b.mu.Unlock()
	return b.await(ctx, r)
}

func small(c *pgsql.Call) bool {
	for _, a := range c.Args {
		if p, ok := a.([]byte); ok && len(p) > batchedResult {
			return false
		}
	}
	return true
}

// await returns what r is told, or ctx's error.
func (b *batches) await(ctx context.Context, r *request) (signal, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case got := <-r.wake:
			return got, nil
		case <-timer.C:
			if b.leave(r) {
				b.mu.Lock()
				b.running++
				b.mu.Unlock()
				return lead, nil
			}
			continue // it has been told, or is being carried
		case <-ctx.Done():
		}
		if b.leave(r) {
			return 0, ctx.Err()
		}
		select {
		case got := <-r.wake:
			if got == lead {
				b.handOn()
			}
		default: // under way; nobody reads its answer
		}
		return 0, ctx.Err()
	}
}

// leave takes r out of those that wait, if it is still among them.
func (b *batches) leave(r *request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, r)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return i >= 0
}

// lead carries own and those that wait by now, tells them, and hands on.
func (s *Store) lead(ctx context.Context, own *request) (told signal) {
	b := &s.batches
	calls := b.take(own)
	told = alone
	defer func() { // also when a driver panics
		for _, r := range calls[1:] {
			r.wake <- told
		}
		b.handOn()
	}()
	if len(calls) == 1 {
		own.err = driver{s.pool}.One(ctx, own.call.SQL, own.call.Args, own.call.Dest)
		return answered
	}
	if s.carry(ctx, slices.Clone(calls)) == nil {
		told = answered
	}
	return told
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

// handOn lets the oldest that waits lead.
func (b *batches) handOn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 || b.running > b.from {
		b.running--
		return
	}
	next := b.waiting[0]
	b.waiting = slices.Delete(b.waiting, 0, 1)
	next.wake <- lead
}

// manners bounds how long a batch waits for a row that someone else has locked:
// a transaction that keeps one key must not hold up the others. And it keeps the planner from
// reading a small table as a whole, with a plan that stays as the table grows.
const manners = "SELECT set_config('lock_timeout', '100', true), set_config('enable_seqscan', 'off', true)"

// carry asks calls in one transaction: the claims in one statement, then the
// others in another. In order of their keys, they wait for those of other
// processes and hardly ever in a circle, which the server would break.
func (s *Store) carry(ctx context.Context, calls []*request) (err error) {
	slices.SortFunc(calls, func(a, b *request) int { return bytes.Compare(a.key[:], b.key[:]) })
	var begins, writes []*request
	for _, r := range calls {
		if s.queries.IsBegin(r.call) {
			begins = append(begins, r)
		} else {
			writes = append(writes, r)
		}
	}
	var batch pgx.Batch
	batch.Queue(manners)
	for _, part := range [][]*request{begins, writes} {
		if len(part) > 0 {
			query, args := s.queries.Many(asked(part))
			batch.Queue(query, args...)
		}
	}
	results := s.pool.SendBatch(ctx, &batch)
	_, err = results.Exec()
	for _, part := range [][]*request{begins, writes} {
		if err == nil && len(part) > 0 {
			err = read(results, part)
		}
	}
	return errors.Join(err, results.Close()) // that of Close is the commit's
}

// read takes a row for each of part.
func read(results pgx.BatchResults, part []*request) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		values := rows.RawValues()
		place := values[len(values)-1] // an int8
		if len(place) != 8 {
			return errPlace
		}
		i := binary.BigEndian.Uint64(place) - 1
		if i >= uint64(len(part)) {
			return errPlace
		}
		if err := rows.Scan(append(part[i].call.Dest, nil)...); err != nil {
			return err
		}
		part[i].read = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, r := range part {
		if !r.read || n != len(part) {
			return errPlace
		}
	}
	return nil
}

var errPlace = errors.New("pgxstore: the server answered other calls than it was asked")

func asked(part []*request) []*pgsql.Call {
	calls := make([]*pgsql.Call, len(part))
	for i, r := range part {
		calls[i] = r.call
	}
	return calls
}
