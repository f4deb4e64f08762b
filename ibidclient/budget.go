package ibidclient

import (
	"sync"
	"time"
)

// budget is the tokens for retries that all operations of a transport share.
type budget struct {
	mu     sync.Mutex
	tokens float64
	last   time.Time // when tokens was brought up to date; zero before the first operation
}

// earn adds what one more operation is worth.
func (b *budget) earn(rule Budget) {
	if rule.Reserve < 0 {
		return
	}
	b.mu.Lock()
	b.refresh(rule)
	b.tokens = min(b.tokens+max(rule.Ratio, 0), float64(rule.Reserve))
	b.mu.Unlock()
}

// take takes a token for a retry, and reports whether there was one.
func (b *budget) take(rule Budget) bool {
	if rule.Reserve < 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(rule)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (b *budget) refresh(rule Budget) {
	now := time.Now()
	if b.last.IsZero() {
		b.tokens = float64(rule.Reserve)
	} else {
		b.tokens += now.Sub(b.last).Seconds() * max(rule.PerSecond, 0)
	}
	b.tokens = min(b.tokens, float64(rule.Reserve))
	b.last = now
}
