package inbox

import (
	"context"
	"sync"
	"time"
)

// heartbeat tells the broker every now and then that a message is still being
// processed. A message that is done before the first beat is due costs a timer and
// no goroutine.
type heartbeat struct {
	every  time.Duration
	beat   func(context.Context) error
	ctx    context.Context // of the beats
	cancel context.CancelFunc

	mu    sync.Mutex // held while a beat is under way
	timer *time.Timer
	over  bool
}

func startHeartbeat(ctx context.Context, beat func(context.Context) error, every time.Duration) *heartbeat {
	if beat == nil || every <= 0 {
		return nil
	}
	h := &heartbeat{every: every, beat: beat}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(every, h.fire)
	return h
}

func (h *heartbeat) fire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, h.every)
	defer cancel()
	_ = h.beat(ctx) // the next one may succeed; the lease does not depend on it
	h.timer.Reset(h.every)
}

// stop returns when no beat is under way and none will follow: a beat after the
// acknowledgement would be an error to some brokers.
func (h *heartbeat) stop() {
	if h == nil {
		return
	}
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.timer.Stop()
}
