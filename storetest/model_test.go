package storetest_test

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

// model is a store that is right, and can be broken: each of its verbs is a
// field.
type model struct {
	mu      sync.Mutex
	records map[ibid.Digest][]byte       // key → record at rest
	waits   map[ibid.Digest][]*modelWait // key → who watches it

	begin      func(r *record.Record, c ibid.Claim, now int64) bool
	extend     func(r *record.Record, token ibid.Token, lease time.Duration, now int64) error
	complete   func(r *record.Record, token ibid.Token, result []byte, keep ibid.Keep, now int64) (bool, error)
	release    func(r *record.Record, token ibid.Token, now int64) (bool, error)
	checkpoint func(r *record.Record, token ibid.Token, steps []byte, now int64) error
	forget     func(r *record.Record, token ibid.Token, window time.Duration, now int64) error
	look       func(r *record.Record, now int64) bool                                           // reports whether it changed r
	load       func(r *record.Record, now int64)                                                // after every read
	show       func(v *ibid.Record, r *record.Record, asked ibid.Claim)                         // before every answer
	decode     func(key ibid.Digest, b []byte) (record.Record, error)                           // of what is at rest
	over       func(r *record.Record, now int64) bool                                           // whether Sweep deletes r
	sweep      func(over []ibid.Digest, limit int) (chosen []ibid.Digest, count int)            // what a sweep deletes, and says
	list       func(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) []ibid.Entry // of all records, in order
	wakes      func(verb string, waits []*modelWait) []*modelWait                               // who is woken
	stop       func(w *modelWait, calls int, others []*modelWait)                               // before the wait ends
	key        func(k ibid.Digest) ibid.Digest                                                  // what is kept of a key
	ended      func(ctx context.Context, verb string) error                                     // asked first
	describe   func() ibid.Description
	torn       map[string]bool // verb → another may write between its read and its write
	stuck      bool            // a damaged record cannot be forgotten
	alone      bool            // a second handle shares nothing
	unlisted   bool            // List stops at a damaged record
}

type modelWait struct {
	changed chan struct{}
	once    sync.Once
}

func (w *modelWait) wake() { w.once.Do(func() { close(w.changed) }) }

func newModel() *model {
	return &model{
		records:    map[ibid.Digest][]byte{},
		waits:      map[ibid.Digest][]*modelWait{},
		begin:      (*record.Record).Begin,
		extend:     (*record.Record).Extend,
		complete:   (*record.Record).Complete,
		checkpoint: (*record.Record).Checkpoint,
		forget:     (*record.Record).Forget,
		release: func(r *record.Record, token ibid.Token, now int64) (bool, error) {
			return r.Release(token, now), nil
		},
		look:   func(*record.Record, int64) bool { return false },
		load:   func(*record.Record, int64) {},
		show:   func(*ibid.Record, *record.Record, ibid.Claim) {},
		decode: record.Decode,
		over:   func(r *record.Record, now int64) bool { return !r.Kept(now) },
		sweep: func(over []ibid.Digest, limit int) ([]ibid.Digest, int) {
			over = over[:min(len(over), max(limit, 0))]
			return over, len(over)
		},
		list:     page,
		wakes:    func(_ string, waits []*modelWait) []*modelWait { return waits },
		stop:     func(*modelWait, int, []*modelWait) {},
		key:      func(k ibid.Digest) ibid.Digest { return k },
		ended:    func(ctx context.Context, _ string) error { return ctx.Err() },
		describe: func() ibid.Description { return described(0) },
		torn:     map[string]bool{},
	}
}

func described(survives ibid.Survival) ibid.Description {
	d := ibid.Description{Store: "model", Survives: survives, Advice: map[ibid.Survival]string{}}
	for bit := ibid.ProcessKill; bit <= ibid.Failover; bit <<= 1 {
		if survives&bit == 0 {
			d.Advice[bit] = "use another store"
		}
	}
	return d
}

// page is what List shows of all records, which are in ascending order.
func page(all []ibid.Entry, f ibid.Filter, after ibid.Digest, limit int) (out []ibid.Entry) {
	for _, e := range all {
		e.Record.Result = nil
		if bytes.Compare(e.Key[:], after[:]) > 0 && e.Record.State != ibid.Absent && f.Match(e.Record) && len(out) < limit {
			out = append(out, e)
		}
	}
	return out
}

func (m *model) now() int64 { return time.Now().UnixNano() }

// do lets f change the record at key.
func (m *model) do(ctx context.Context, verb string, key ibid.Digest, f func(r *record.Record, now int64) (bool, error)) (r record.Record, now int64, err error) {
	if err := m.ended(ctx, verb); err != nil {
		return r, 0, err
	}
	key = m.key(key)
	if len(m.torn) > 0 && !m.torn[verb] {
		time.Sleep(time.Nanosecond) // between what a torn verb reads and what it writes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now = m.now()
	if b, ok := m.records[key]; ok {
		r, err = m.decode(key, b)
		if err != nil && verb == "forget unread" && !m.stuck {
			r, err = record.Damaged(now), nil
		}
		if err != nil {
			return r, now, err
		}
	}
	m.load(&r, now)
	if m.torn[verb] {
		m.mu.Unlock()
		time.Sleep(2 * time.Nanosecond)
		m.mu.Lock()
	}
	changed, err := f(&r, now)
	if changed {
		m.records[key] = r.Append(nil, key)
		r, _ = record.Decode(key, bytes.Clone(m.records[key]))
		if verb != "begin" && verb != "look" && verb != "checkpoint" {
			for _, w := range m.wakes(verb, m.waits[key]) {
				w.wake()
			}
		}
	}
	return r, now, err
}

func (m *model) view(r record.Record, now int64, asked ibid.Claim) ibid.Record {
	v := r.View(now)
	for _, b := range []*[]byte{&v.Label, &v.Steps, &v.Result} {
		*b = bytes.Clone(*b)
	}
	m.show(&v, &r, asked)
	return v
}

func (m *model) Begin(ctx context.Context, key ibid.Digest, c ibid.Claim) (ibid.Record, error) {
	r, now, err := m.do(ctx, "begin", key, func(r *record.Record, now int64) (bool, error) { return m.begin(r, c, now), nil })
	if err != nil {
		return ibid.Record{}, err
	}
	return m.view(r, now, c), nil
}

func (m *model) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	r, now, err := m.do(ctx, "look", key, func(r *record.Record, now int64) (bool, error) { return m.look(r, now), nil })
	if err != nil {
		return ibid.Record{}, err
	}
	return m.view(r, now, ibid.Claim{}), nil
}

func (m *model) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	verb := "extend"
	if lease <= 0 {
		verb = "give up"
	}
	_, _, err := m.do(ctx, verb, key, func(r *record.Record, now int64) (bool, error) {
		err := m.extend(r, token, lease, now)
		return err == nil, err
	})
	return err
}

func (m *model) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	_, _, err := m.do(ctx, "complete", key, func(r *record.Record, now int64) (bool, error) {
		return m.complete(r, token, result, keep, now)
	})
	return err
}

func (m *model) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	_, _, err := m.do(ctx, "release", key, func(r *record.Record, now int64) (bool, error) { return m.release(r, token, now) })
	return err
}

func (m *model) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, steps []byte) error {
	_, _, err := m.do(ctx, "checkpoint", key, func(r *record.Record, now int64) (bool, error) {
		err := m.checkpoint(r, token, steps, now)
		return err == nil, err
	})
	return err
}

func (m *model) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	verb := "forget"
	if token.IsZero() {
		verb = "forget unread"
	}
	_, _, err := m.do(ctx, verb, key, func(r *record.Record, now int64) (bool, error) {
		err := m.forget(r, token, window, now)
		return err == nil, err
	})
	return err
}

func (m *model) Sweep(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var over []ibid.Digest
	for key, b := range m.records {
		if r, err := record.Decode(key, b); err == nil && m.over(&r, now) {
			over = append(over, key)
		}
	}
	slices.SortFunc(over, func(a, b ibid.Digest) int { return bytes.Compare(a[:], b[:]) })
	chosen, count := m.sweep(over, limit)
	if m.torn["sweep"] {
		m.mu.Unlock()
		time.Sleep(2 * time.Nanosecond)
		m.mu.Lock()
	}
	for _, key := range chosen {
		delete(m.records, key)
	}
	return count, nil
}

func (m *model) List(ctx context.Context, f ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var all []ibid.Entry
	for key, b := range m.records {
		r, err := m.decode(key, bytes.Clone(b))
		if errors.Is(err, ibid.ErrDamaged) && !m.unlisted {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, ibid.Entry{Key: key, Record: r.View(now)})
	}
	slices.SortFunc(all, func(a, b ibid.Entry) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return m.list(all, f, after, limit), nil
}

func (m *model) Watch(ctx context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key = m.key(key)
	w := &modelWait{changed: make(chan struct{})}
	m.waits[key] = append(m.waits[key], w)
	calls := 0
	return w.changed, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		calls++
		m.stop(w, calls, m.waits[key])
		m.waits[key] = slices.DeleteFunc(slices.Clone(m.waits[key]), func(o *modelWait) bool { return o == w })
	}, ctx.Err()
}

func (m *model) Describe(context.Context) (ibid.Description, error) { return m.describe(), nil }

// corrupt changes what is at rest.
func (m *model) corrupt(key ibid.Digest, change func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key = m.key(key)
	m.records[key] = change(m.records[key])
}
