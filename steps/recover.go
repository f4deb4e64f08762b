package steps

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// Re-driving, as a policy: an operation whose attempt vanished, and whose request was
// kept, is asked for again as its client would have, under the same key and
// claims, so that any number of completers and clients may do it at the same time. One that
// fails is left alone for a while that doubles each time. After
// MaxAttempts, or where the operation's own policy takes nothing over any more, its outcome is
// unknown, and stays so until a person resolves it.

// Handler asks for an operation again: it calls Run, or whatever ran it first,
// with r.Call. Its error is that of the operation.
type Handler func(ctx context.Context, r Request) error

// RecoverOptions are the options of Recover. A nil *RecoverOptions, and the zero
// value of every field, is the default.
type RecoverOptions struct {
	// Every is the pause between two passes over the store. Default 30 s.
	Every time.Duration
	// Batch is how many operations are listed at one time. Default 100.
	Batch int
	// Parallel is how many are re-driven at one time. Default 4.
	Parallel int
	// MaxAttempts is how many attempts an operation may have had, its clients' own
	// included, and still be re-driven. Default 10; negative is no bound. The
	// operation's Policy.MaxTakeovers bounds them too.
	MaxAttempts int
	// Backoff is the pause after a first failure; it doubles with each, up to an
	// hour. Default 30 s. A new completer begins anew.
	Backoff time.Duration
	// Released re-drives also what an attempt released after a step had begun:
	// its caller was told of a failure, and may count on nothing more
	// happening. Default false.
	Released bool
	// Observe is called with everything that was re-driven, or cannot be, at one
	// time from several goroutines. Default nil.
	Observe func(context.Context, Redriven)
}

// Redriven says what became of an operation.
type Redriven struct {
	// Key is the digest of the operation's key.
	Key ibid.Digest
	// Name is that of the request; "" when it cannot be read.
	Name string
	// Attempt is the number of the attempt that vanished.
	Attempt int
	// Err is nil when the operation is finished. ErrUnknown says that it cannot
	// be told what happened: a person must resolve it, if it stays so.
	Err error
}

// Pass says what one pass over the store found.
type Pass struct {
	// Finished operations have a result now.
	Finished int
	// Failed ones are tried again later.
	Failed int
	// Unknown ones cannot be told, at present or ever.
	Unknown int
	// Waiting ones were left alone, since they failed not long ago.
	Waiting int
}

func (o *RecoverOptions) complete() RecoverOptions {
	var out RecoverOptions
	if o != nil {
		out = *o
	}
	pick(&out.Every, 30*time.Second)
	pick(&out.Batch, 100)
	pick(&out.Parallel, 4)
	pick(&out.MaxAttempts, 10)
	pick(&out.Backoff, 30*time.Second)
	return out
}

func pick[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Recover re-drives lapsed operations, pass after pass, until ctx ends, and returns
// ctx's error. handlers are named as the kept requests are; the one named
// "" gets those that no other is for. An operation without a handler fails. A store that cannot list is ErrInvalid, at once; a
// pass that fails is reported to Observe, and repeated.
func Recover(ctx context.Context, e *ibid.Engine, handlers map[string]Handler, opts *RecoverOptions) error {
	c := newCompleter(e, handlers, opts)
	for {
		_, err := c.pass(ctx)
		if errors.Is(err, ibid.ErrInvalid) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			c.tell(ctx, Redriven{Err: err})
		}
		timer := time.NewTimer(c.opts.Every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// RecoverOnce is one pass of Recover over the whole store.
func RecoverOnce(ctx context.Context, e *ibid.Engine, handlers map[string]Handler, opts *RecoverOptions) (Pass, error) {
	return newCompleter(e, handlers, opts).pass(ctx)
}

type completer struct {
	engine   *ibid.Engine
	handlers map[string]Handler
	opts     RecoverOptions

	mu     sync.Mutex
	result Pass
	pauses map[ibid.Digest]pause // operations that failed
}

// pause is how long a failed operation is left alone.
type pause struct {
	until time.Time
	next  time.Duration
	seen  bool // in this pass
}

func newCompleter(e *ibid.Engine, handlers map[string]Handler, opts *RecoverOptions) *completer {
	return &completer{engine: e, handlers: handlers, opts: opts.complete(), pauses: make(map[ibid.Digest]pause)}
}

func (c *completer) tell(ctx context.Context, r Redriven) {
	if c.opts.Observe != nil {
		c.opts.Observe(ctx, r)
	}
}

func (c *completer) pass(ctx context.Context) (Pass, error) {
	c.result = Pass{}
	states := []ibid.State{ibid.Lapsed}
	if c.opts.Released {
		states = append(states, ibid.Released)
	}
	var after ibid.Digest
	for {
		list, err := c.engine.List(ctx, "", states, after, c.opts.Batch)
		if err != nil {
			return c.result, err
		}
		c.batch(ctx, list)
		if err := ctx.Err(); err != nil {
			return c.result, err
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1].Key
	}
	for key, p := range c.pauses { // what somebody else finished is forgotten
		if !p.seen {
			delete(c.pauses, key)
			continue
		}
		p.seen = false
		c.pauses[key] = p
	}
	return c.result, nil
}

// batch re-drives list, and returns when all of it has ended.
func (c *completer) batch(ctx context.Context, list []ibid.Operation) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(c.opts.Parallel, 1))
	for _, o := range list {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			c.redrive(ctx, o)
		})
	}
	wg.Wait()
}

func (c *completer) redrive(ctx context.Context, o ibid.Operation) {
	r, ok, err := RequestOf(c.engine, o)
	if err == nil && !ok || c.early(o.Key) {
		return
	}
	name, n := r.Name, o.Record.Attempt
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ibid.ErrUnknown, err)
	case c.opts.MaxAttempts > 0 && n >= c.opts.MaxAttempts:
		err = fmt.Errorf("%w after %d attempts", ibid.ErrUnknown, n)
	case c.handler(name) == nil:
		err = fmt.Errorf("%w: steps: no handler is named %q", ibid.ErrInvalid, name)
	default:
		err = c.handler(name)(ctx, r)
		var final *ibid.FinalError
		if errors.As(err, &final) {
			err = nil // a failure that is recorded is a result
		}
	}
	if ctx.Err() != nil && err != nil {
		return
	}
	if errors.Is(err, ibid.ErrInProgress) { // somebody else is at it
		return
	}
	c.settle(o.Key, err)
	c.tell(ctx, Redriven{Key: o.Key, Name: name, Attempt: n, Err: err})
}

func (c *completer) handler(name string) Handler {
	if h := c.handlers[name]; h != nil {
		return h
	}
	return c.handlers[""]
}

// early reports whether the operation failed not long ago.
func (c *completer) early(key ibid.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pauses[key]
	if !ok {
		return false
	}
	p.seen = true
	c.pauses[key] = p
	if time.Now().Before(p.until) {
		c.result.Waiting++
		return true
	}
	return false
}

const lastBackoff = time.Hour

func (c *completer) settle(key ibid.Digest, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.result.Finished++
		delete(c.pauses, key)
		return
	case errors.Is(err, ibid.ErrUnknown):
		c.result.Unknown++
	default:
		c.result.Failed++
	}
	next := c.pauses[key].next
	if next == 0 {
		next = c.opts.Backoff
	}
	c.pauses[key] = pause{until: time.Now().Add(next), next: min(2*next, lastBackoff), seen: true}
}
