package layered

import (
	"math/rand/v2"
	"sync"
	"time"
)

// breaker leaves a failing front alone, as a policy: after a failure nobody asks
// it for a while; then one caller does, and only its success lets the others
// ask again. The while doubles with every failure, and is jittered so that
// processes do not come back together.
type breaker struct {
	longest time.Duration // negative never leaves alone

	mu     sync.Mutex
	pause  time.Duration // 0 while the front answers
	until  time.Time     // left alone until then
	trying bool          // one caller finds out
}

// allows reports whether to ask at now, and whether to find out for everyone.
func (b *breaker) allows(now time.Time) (ok, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pause == 0:
		return true, false
	case b.trying || now.Before(b.until):
		return false, false
	}
	b.trying = true
	return true, true
}

// answered notes that the front is well.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause, b.trying = 0, false
}

// unknown notes that a call ended before it said anything of the front.
func (b *breaker) unknown(trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = b.trying && !trial
}

// failed notes a failure at now. Calls that were under way when the first of
// them failed say nothing new.
func (b *breaker) failed(now time.Time, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.longest < 0 || b.pause > 0 && !trial {
		return
	}
	b.trying = b.trying && !trial
	b.pause = min(max(2*b.pause, b.longest/50, 1), b.longest)
	b.until = now.Add(b.pause/2 + rand.N(b.pause/2+1))
}
