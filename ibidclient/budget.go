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

// earn adds what one more operation, begun at now, is worth.
func (b *budget) earn(rule Budget, now time.Time) {
	if rule.Reserve < 0 {
		return
	}
	b.mu.Lock()
	b.refresh(rule, now)
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
	b.refresh(rule, time.Now())
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (b *budget) refresh(rule Budget, now time.Time) {
	switch passed := now.Sub(b.last); {
	case b.last.IsZero():
		b.tokens = float64(rule.Reserve)
	case passed <= 0: // another operation came in between
		return
	default:
		b.tokens = min(b.tokens+passed.Seconds()*max(rule.PerSecond, 0), float64(rule.Reserve))
	}
	b.last = now
}
