package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/memstore"
)

var errDown = errors.New("downstream is down")

// env is one case at work. The first failure stands.
type env struct {
	ctx    context.Context
	target Target
	broker Broker
	engine *ibid.Engine
	stops  []func()

	mu      sync.Mutex
	err     error
	effects map[string]int // body → how often it had its effect: a ledger without a unique constraint
	runs    map[string]int // body → how often its work ran
	dead    []error
	emitted []string // IDs
}

func newEnv(ctx context.Context, target Target) (*env, error) {
	if target.Patience <= 0 {
		target.Patience = 30 * time.Second
	}
	store := ibid.Store(new(memstore.Store))
	if target.Store != nil {
		var err error
		if store, err = target.Store(ctx); err != nil {
			return nil, err
		}
	}
	e := &env{ctx: ctx, target: target, effects: map[string]int{}, runs: map[string]int{}}
	var err error
	if e.engine, err = ibid.New(ctx, store, nil); err != nil {
		return nil, err
	}
	e.broker, err = target.Open(ctx)
	return e, err
}

func (e *env) close() error {
	for _, stop := range e.stops {
		stop()
	}
	if err := e.broker.Close(); err != nil {
		e.failf("Close: %w", err)
	}
	return e.err
}

func (e *env) failf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// consumer returns a consumer that is quick to retry.
func (e *env) consumer(takeover ibid.Takeover, change func(*inbox.Options)) *inbox.Consumer {
	opts := inbox.Options{
		Policy:     ibid.Policy{Wait: -1, RetryAfter: 50 * time.Millisecond, MaxAttempts: 5},
		AckTimeout: e.target.AckTimeout,
		RetryMin:   20 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		DeadLetter: func(_ context.Context, _ inbox.Message, err error) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.dead = append(e.dead, err)
			return nil
		},
		Emit: func(_ context.Context, _ inbox.Message, produced []inbox.Produced) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, p := range produced {
				e.emitted = append(e.emitted, p.ID)
			}
			return nil
		},
	}
	if change != nil {
		change(&opts)
	}
	c, err := inbox.New(e.engine, "inboxtest", takeover, &opts)
	if err != nil {
		e.failf("New: %w", err)
	}
	return c
}

// consume starts a consumer, which stop stops and waits for.
func (e *env) consume(c *inbox.Consumer, work func(ctx context.Context, body string, run int) error) (cancel, stop func()) {
	if c == nil {
		return func() {}, func() {}
	}
	ctx, cancelCtx := context.WithCancel(e.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := e.broker.Consume(ctx, c, func(ctx context.Context, body string) error {
			e.mu.Lock()
			e.runs[body]++
			run := e.runs[body]
			e.mu.Unlock()
			return work(ctx, body, run)
		})
		if err != nil && ctx.Err() == nil {
			e.failf("Consume: %w", err)
		}
	}()
	stop = func() { cancelCtx(); <-done }
	e.stops = append(e.stops, stop)
	return cancelCtx, stop
}

// effect writes the ledger.
func (e *env) effect(body string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.effects[body]++
	return nil
}

func (e *env) publish(id, body string) {
	if err := e.broker.Publish(e.ctx, id, body); err != nil {
		e.failf("Publish: %w", err)
	}
}

// until waits for ok, which is called under the lock.
func (e *env) until(what string, ok func() bool) {
	end := time.Now().Add(e.target.Patience)
	for {
		e.mu.Lock()
		done, failed := ok(), e.err != nil
		e.mu.Unlock()
		switch {
		case done || failed:
			return
		case time.Now().After(end) || e.ctx.Err() != nil:
			e.mu.Lock()
			seen := e.show()
			e.mu.Unlock()
			e.failf("%s did not happen: %s", what, seen)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// exactly waits until each of bodies had its effect, and fails the case where one
// had more. What comes after the last one is given time to show.
func (e *env) exactly(bodies ...string) {
	e.until("every effect", func() bool {
		return !slices.ContainsFunc(bodies, func(b string) bool { return e.effects[b] == 0 })
	})
	e.settle()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range bodies {
		if n := e.effects[b]; n != 1 && e.err == nil {
			e.err = fmt.Errorf("%q had its effect %d times: %s", b, n, e.show())
		}
	}
}

// settle waits for what may still be on its way.
func (e *env) settle() { time.Sleep(300*time.Millisecond + e.target.AckTimeout/2) }

// show is called under the lock.
func (e *env) show() string {
	return fmt.Sprintf("effects %v, runs %v, dead letters %v, emitted %v", e.effects, e.runs, e.dead, e.emitted)
}
