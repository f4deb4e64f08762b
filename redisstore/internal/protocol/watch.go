package protocol

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
)

// Waking, as a policy: who waits marks the claim; whoever ends a marked claim
// publishes its key, in the step that ends it. A claim that nobody waits for costs
// no message. One subscription serves all who wait in this process. While it is
// down nobody is woken, and Watch says so.

var (
	errNotSubscribed = errors.New("redisstore: not subscribed")
	errClosed        = errors.New("redisstore: store is closed")
)

// watchLimit bounds how long Watch keeps its caller from polling.
const watchLimit = time.Second

// watches are those who wait in this process, and their subscription.
type watches struct {
	mu     sync.Mutex
	m      map[ibid.Digest]*watch
	ready  chan struct{} // closed while subscribed; replaced when that ends
	cancel context.CancelFunc
	done   chan struct{} // closed when the subscription has ended; nil before the first Watch
	closed bool
}

// watch is one channel for all who wait for a key; the next wake closes it.
type watch struct {
	changed chan struct{}
	callers int
}

// Watch implements ibid.Notifier. The first call subscribes, which takes one
// connection of the client, or a share of one, until Close. It takes no longer
// than a second, and reports an error when the server cannot be reached by then.
func (s *Store) Watch(ctx context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	ready, err := s.subscribed()
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return nil, nil, errors.Join(errNotSubscribed, ctx.Err())
	}
	changed, stop := s.watches.add(key)
	a, err := s.run(ctx, watching, s.key(&key), claimed)
	if err != nil {
		stop()
		return nil, nil, err
	}
	if !a.applied { // no claim stands that could end
		s.watches.wake(key)
	}
	return changed, stop, nil
}

// subscribed starts the subscription unless it runs, and returns what is closed
// while it stands.
func (s *Store) subscribed() (<-chan struct{}, error) {
	w := &s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	if w.done == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w.m, w.ready = make(map[ibid.Digest]*watch), make(chan struct{})
		w.cancel, w.done = cancel, make(chan struct{})
		go func() {
			defer close(w.done)
			s.subscribe(ctx)
		}()
	}
	return w.ready, nil
}

// subscribe keeps the subscription until ctx ends.
func (s *Store) subscribe(ctx context.Context) {
	w := &s.watches
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		began := time.Now()
		// An error is not reported: those who wait poll meanwhile, and the next
		// Watch says that nothing is subscribed.
		_ = s.conn.Subscribe(ctx, s.channel, w.up, func(message string) {
			var key ibid.Digest
			if copy(key[:], message) == len(key) {
				w.wake(key)
			}
		})
		w.down()
		if time.Since(began) > time.Minute {
			pause = 50 * time.Millisecond
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// up notes that the subscription stands. What was published before is lost, so
// everybody looks.
func (w *watches) up() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
	for key := range w.m {
		w.wakeLocked(key)
	}
}

func (w *watches) down() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ready:
		w.ready = make(chan struct{})
	default:
	}
	for key := range w.m {
		w.wakeLocked(key)
	}
}

func (w *watches) add(key ibid.Digest) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.m[key]
	if one == nil {
		one = &watch{changed: make(chan struct{})}
		w.m[key] = one
	}
	one.callers++
	return one.changed, sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if one.callers--; one.callers == 0 && w.m[key] == one {
			delete(w.m, key)
		}
	})
}

func (w *watches) wake(key ibid.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked(key)
}

func (w *watches) wakeLocked(key ibid.Digest) {
	if one := w.m[key]; one != nil {
		close(one.changed)
		delete(w.m, key)
	}
}

// Close ends the subscription, if Watch began one, and waits until it has
// ended. The client is the caller's, and stays open. Every other verb goes on
// working.
func (s *Store) Close() error {
	w := &s.watches
	w.mu.Lock()
	w.closed = true
	cancel, done := w.cancel, w.done
	w.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	<-done
	return nil
}
