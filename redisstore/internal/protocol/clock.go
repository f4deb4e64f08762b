package protocol

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// clock estimates the server's clock from the times that its answers carry, and
// never from this machine's: an answer's time, and what has passed here since it
// was asked for. That is the server's clock or a little ahead of it, by no more
// than the question took, as long as nobody sets the server's clock. Of two such
// estimates the one further ahead stays, so that the fences of a process are as
// far apart as its claims.
//
// The estimate is used where an error costs nothing: for the fence of the first
// claim of a window, and for what is left of a result. Who holds a claim, and
// whether a result is over, the server says itself.
type clock struct {
	start time.Time
	ahead atomic.Int64 // the server's nanoseconds at start; 0 is not known
	asked atomic.Int64 // when that was asked for, nanoseconds since start
}

const (
	// An estimate is used for this long without another answer.
	clockValid = time.Minute
	// An estimate that is older is replaced by the next one, and a younger one
	// by one that is further ahead, or so far behind that somebody has set the
	// server's clock back.
	clockFresh = 30 * time.Second
	clockBack  = 100 * time.Millisecond
	// An answer that took longer says too little.
	clockSlow = 50 * time.Millisecond
)

func newClock() *clock { return &clock{start: time.Now()} }

// since is a moment of this process, to be given to learn.
func (c *clock) since() time.Duration { return time.Since(c.start) }

// learn takes the server's time from an answer that was asked for at asked.
func (c *clock) learn(asked time.Duration, micros int64) {
	ahead := (micros+1)*int64(time.Microsecond) - int64(asked)
	if had := c.ahead.Load(); had != 0 && asked-time.Duration(c.asked.Load()) < clockFresh {
		if c.since()-asked > clockSlow || ahead <= had && ahead > had-int64(clockBack) {
			return
		}
	}
	c.ahead.Store(ahead)
	c.asked.Store(int64(asked))
}

// now returns the estimate in nanoseconds. It asks conn when there is none.
func (c *clock) now(ctx context.Context, conn Conn) (int64, error) {
	t := c.since()
	if c.ahead.Load() == 0 || t-time.Duration(c.asked.Load()) > clockValid {
		if err := c.ask(ctx, conn); err != nil {
			return 0, err
		}
		t = c.since()
	}
	return c.ahead.Load() + int64(t), nil
}

// ask learns from the quickest of a few answers.
func (c *clock) ask(ctx context.Context, conn Conn) error {
	quickest := time.Duration(math.MaxInt64)
	var at time.Duration
	var best int64
	for range 3 {
		asked := c.since()
		micros, err := conn.Time(ctx)
		if err != nil {
			return err
		}
		if took := c.since() - asked; took < quickest {
			quickest, at, best = took, asked, micros
		}
		if quickest < time.Millisecond {
			break
		}
	}
	c.learn(at, best)
	return nil
}
