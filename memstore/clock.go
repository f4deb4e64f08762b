package memstore

import (
	"sync"
	"time"
)

// clock is monotonic: the wall clock says where it starts, at first use, and
// never again, so that a step of the wall clock ends no lease.
type clock struct {
	once  sync.Once
	start time.Time
}

// now returns nanoseconds since 1970, by this clock.
func (c *clock) now() int64 {
	c.once.Do(func() { c.start = time.Now() })
	return c.start.UnixNano() + int64(time.Since(c.start))
}
