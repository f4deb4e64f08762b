package ibidhttp

import (
	"net/http"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// Limits, as a policy: they count per process, and before the store is asked
// for a claim. Whether a key is new is known only afterwards, so that every request takes
// one of its scope's new keys and gives it back when it claimed none. A scope
// that has used up its new keys still gets replays: a look at the store, which
// claims nothing, tells them apart.

// maxScopes bounds the scopes that are counted one by one. When all of them are
// busy, those that come later share one count.
const maxScopes = 10_000

type limiter struct {
	limits *Limits
	mu     sync.Mutex
	cells  map[string]*cell // scope → its counts
	swept  time.Time        // when idle scopes were last dropped
	shared cell             // of the scopes for which there was no room
}

// cell is what one scope has used.
type cell struct {
	began      time.Time // of the interval
	newKeys    int
	inProgress int
}

func newLimiter(l *Limits) *limiter {
	if l.NewKeys == 0 && l.InProgress == 0 {
		return nil
	}
	return &limiter{limits: l, cells: make(map[string]*cell)}
}

// admit counts the request against the limits of its scope, and reports a
// problem when it is over one.
func (x *exchange) admit() problem {
	l := x.m.limits
	if l == nil {
		return problem{}
	}
	retry, ok := l.enter(x)
	if ok {
		return problem{}
	}
	if retry > 0 && x.completed() {
		return problem{}
	}
	p := problem{
		typ: TypeTooManyKeys, title: "Too many requests", status: http.StatusTooManyRequests, retry: retry,
		detail: "This caller uses more new keys in a time than it may. Nothing was carried out. Ask again later with the same key.",
	}
	if retry == 0 {
		p.retry = x.m.retryAfter
		p.detail = "This caller has more requests in progress than it may. Nothing was carried out. Ask again later with the same key."
	}
	return p
}

// completed reports whether the key has a result already.
func (x *exchange) completed() bool {
	op, err := x.m.engine.Inspect(x.r.Context(), x.m.engine.Digest(x.call.Key))
	return err == nil && (op.Record.State == ibid.Completed || op.Record.State == ibid.Expired)
}

// enter counts x. When it is over a limit, x is not counted, and retry is when
// there are new keys again; 0 when too many are in progress.
func (l *limiter) enter(x *exchange) (retry time.Duration, ok bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cell(x.call.Key.Scope, now)
	if l.limits.InProgress > 0 && c.inProgress >= l.limits.InProgress {
		return 0, false
	}
	if l.limits.NewKeys > 0 {
		if now.Sub(c.began) >= l.limits.Interval {
			c.began, c.newKeys = now, 0
		}
		if c.newKeys >= l.limits.NewKeys {
			return max(c.began.Add(l.limits.Interval).Sub(now), time.Second), false
		}
		c.newKeys++
		x.counted = true
	}
	c.inProgress++
	x.cell = c
	return 0, true
}

func (l *limiter) cell(scope string, now time.Time) *cell {
	if c := l.cells[scope]; c != nil {
		return c
	}
	if len(l.cells) >= maxScopes && now.Sub(l.swept) >= time.Second {
		l.swept = now
		for s, c := range l.cells {
			if c.inProgress == 0 && now.Sub(c.began) >= l.limits.Interval {
				delete(l.cells, s)
			}
		}
	}
	if len(l.cells) >= maxScopes {
		return &l.shared
	}
	c := &cell{began: now}
	l.cells[scope] = c
	return c
}

// leave ends what enter counted.
func (l *limiter) leave(x *exchange) {
	if l == nil || x.cell == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x.cell.inProgress--
	if x.counted && x.over && !x.claimed && x.cell.newKeys > 0 {
		x.cell.newKeys--
	}
	x.cell = nil
}
