package pgxstore

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
)

// idle is how long the connection is kept that nobody waits on.
const idle = time.Minute

// listener wakes those in this process who wait for keys. It has one connection
// of its own, outside of the pool, and one goroutine to read it, from the first Watch
// until a minute after the last, or until the connection is lost.
type listener struct {
	pool    *pgxpool.Pool
	channel string

	mu      sync.Mutex
	closed  bool
	watches map[ibid.Digest]*watch // key → who waits for it
	session *session               // nil when nobody listens
}

// watch is one channel for all who wait for a key; the next change closes it.
type watch struct {
	changed chan struct{}
	callers int
}

// session is one life of the connection.
type session struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed when it listens, or err says why not
	err    error
	done   chan struct{} // closed when its goroutine has ended
}

// Watch implements ibid.Notifier. The first one makes a connection; each flags
// the claim that stands, with a write, so that whoever ends it announces it.
// Nobody is told of a claim that nobody watches.
func (s *Store) Watch(ctx context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	changed, stop, err := s.listener.add(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	query, args := s.queries.Watch(key)
	if _, err := s.pool.Exec(ctx, query, args...); err != nil {
		stop()
		return nil, nil, err
	}
	return changed, stop, nil
}

var errClosed = errors.New("pgxstore: store is closed")

func (l *listener) add(ctx context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, nil, errClosed
	}
	w := l.watches[key]
	if w == nil {
		w = &watch{changed: make(chan struct{})}
		if l.watches == nil {
			l.watches = make(map[ibid.Digest]*watch)
		}
		l.watches[key] = w
	}
	w.callers++
	if l.session == nil {
		l.session = l.start()
	}
	session := l.session
	l.mu.Unlock()
	stop := sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if w.callers--; w.callers == 0 && l.watches[key] == w {
			delete(l.watches, key)
		}
	})
	var err error
	select {
	case <-session.ready:
		err = session.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return w.changed, stop, nil
}

// start starts a session. The caller holds mu.
func (l *listener) start() *session {
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer cancel()
		conn, err := l.connect(ctx)
		if s.err = err; err != nil {
			l.end(s)
			close(s.ready)
			return
		}
		close(s.ready)
		defer func() {
			limit, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = conn.Close(limit)
		}()
		l.read(ctx, conn, s)
	}()
	return s
}

func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	config := l.pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize()); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// read wakes whom the connection tells of, until it is lost, or idle.
func (l *listener) read(ctx context.Context, conn *pgx.Conn, s *session) {
	for {
		limit, cancel := context.WithTimeout(ctx, idle)
		note, err := conn.WaitForNotification(limit)
		cancel()
		switch {
		case err == nil:
			l.wake(note)
		case ctx.Err() == nil && limit.Err() != nil && pgconn.Timeout(err) && l.wanted(s):
			limit, cancel := context.WithTimeout(ctx, 10*time.Second)
			err = conn.Ping(limit)
			cancel()
			if err != nil {
				l.end(s)
				return
			}
		default:
			l.end(s)
			return
		}
	}
}

// wanted reports whether anybody waits; if not, s is no longer the session.
func (l *listener) wanted(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watches) == 0 && l.session == s {
		l.session = nil
	}
	return l.session == s
}

// end says that s reads no more. Those who wait may have missed a change, and
// look for themselves.
func (l *listener) end(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != s {
		return
	}
	l.session = nil
	for _, w := range l.watches {
		close(w.changed)
	}
	clear(l.watches)
}

func (l *listener) wake(note *pgconn.Notification) {
	var key ibid.Digest
	if n, err := hex.Decode(key[:], []byte(note.Payload)[:min(len(note.Payload), 64)]); err != nil || n != len(key) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.watches[key]; w != nil {
		close(w.changed)
		delete(l.watches, key)
	}
}

func (l *listener) close() {
	l.mu.Lock()
	s := l.session
	l.closed = true
	l.mu.Unlock()
	if s != nil {
		s.cancel()
		<-s.done
	}
}
