package ibid

import (
	"context"
	"sync"
)

// Drain shuts the engine down: from now on calls that would claim a key are
// refused with ErrDraining, those that wait for another attempt included, and
// replays are still served. It returns when all
// work has ended and nothing is owed to the store, or with ctx's error.
func (e *Engine) Drain(ctx context.Context) error {
	select {
	case <-e.gate.close():
	case <-ctx.Done():
		return ctx.Err()
	}
	return e.debts.wait(ctx)
}

// gate counts the calls inside, and lets none in once it is closed.
type gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // closed when the last call left; nil while the gate is open
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.inside++
	return true
}

// closed reports whether calls that are inside, and wait, may no longer claim.
func (g *gate) closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.empty != nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.empty != nil && g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil {
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}
