package tour

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// stage is what one scene plays on.
type stage struct {
	*tour
	result  *Result
	servers []*server
	sending sync.WaitGroup // of requests sent with later
	after   []func()       // to be called when the servers have ended
}

// mainServer returns the server that most scenes use. It lives as long as the
// tour.
func (s *stage) mainServer(ctx context.Context) (string, error) {
	if s.main == nil {
		server, err := start(ctx, s.opts.Program, profile{}.args(s.tour))
		if err != nil {
			return "", err
		}
		s.main = server
	}
	return s.main.url, nil
}

// start starts a server that lives as long as the scene.
func (s *stage) start(ctx context.Context, p profile) (*server, error) {
	server, err := start(ctx, s.opts.Program, p.args(s.tour))
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, server)
	return server, nil
}

// stopAll ends the scene's servers, at once when the scene failed.
func (s *stage) stopAll(failed bool) {
	// A server that ends waits for connections on which nothing was sent yet.
	s.client.http.CloseIdleConnections()
	for _, server := range s.servers {
		server.end(failed)
	}
	s.sending.Wait()
	for _, end := range s.after {
		end()
	}
}

const defaultUser = "alice"

// payment returns a request to pay order under key; both are made the tour's
// own.
func (s *stage) payment(key, order string) request {
	return request{
		path: "/payments",
		user: defaultUser,
		key:  `"` + key + "-" + s.id + `"`,
		body: fmt.Sprintf(`{"order_id":%q,"amount":3000,"currency":"TWD"}`, s.order(order)),
	}
}

func (s *stage) order(order string) string { return order + "-" + s.id }

// step shows what was sent and what came back.
func (s *stage) step(sent, got string) {
	s.record(Step{Sent: sent, Got: got})
}

func (s *stage) record(st Step) {
	s.result.Steps = append(s.result.Steps, st)
	s.opts.Out.Step(st)
}

// send sends r and shows both it and the answer.
func (s *stage) send(ctx context.Context, server string, r request) answer {
	a := s.client.send(ctx, server, r)
	s.step(r.String(), a.String())
	return a
}

// ledger expects the ledger to hold want charges of order.
func (s *stage) ledger(ctx context.Context, server, order string, want int) error {
	charges, err := s.client.ledger(ctx, server, s.order(order))
	if err != nil {
		return err
	}
	n := len(charges)
	s.record(Step{Sent: "GET /ledger?order_id=" + s.order(order), Got: plural(n, "charge") + " of " + s.order(order), Charges: &n})
	s.charges[s.order(order)] = n
	return expect("charges of "+s.order(order), want, n)
}

// until asks again, a little later each time, until ok says so or limit is over.
func until(ctx context.Context, limit time.Duration, ok func() (bool, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		done, err := ok()
		if done || err != nil {
			return done, err
		}
		if pauseFor(ctx, pause) != nil {
			return false, nil
		}
	}
}

// untilCharged waits until the ledger holds a charge of order: the request that
// made it is then in the middle of its work.
func (s *stage) untilCharged(ctx context.Context, server, order string) error {
	charged, err := until(ctx, patience, func() (bool, error) {
		charges, err := s.client.ledger(ctx, server, s.order(order))
		return len(charges) > 0, err
	})
	if err != nil || charged {
		return err
	}
	return &BrokenError{What: "charges of " + s.order(order), Expected: "1", Seen: fmt.Sprintf("0 for %v", patience)}
}

// patience is how long to wait for what must happen soon.
const patience = 15 * time.Second

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// later sends r without waiting for the answer, which the channel gives.
func (s *stage) later(ctx context.Context, server string, r request) <-chan answer {
	c := make(chan answer, 1)
	s.sending.Go(func() { c <- s.client.send(ctx, server, r) })
	return c
}

// load sends n requests, parallel at a time. Each is called with every answer,
// one call at a time.
func (s *stage) load(ctx context.Context, n, parallel int, send func(i int) answer, each func(i int, a answer)) {
	var next, done atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				a := send(i)
				mu.Lock()
				each(i, a)
				s.opts.Out.Progress(int(done.Add(1)), n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
