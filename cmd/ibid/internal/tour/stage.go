package tour

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stage is what one scene plays on.
type stage struct {
	*tour
	result  *Result
	servers []*Server
	sending sync.WaitGroup // of requests sent with later
}

// profile says how a server differs from the main one. Zero fields are the
// program's defaults.
type profile struct {
	naked                           bool // without the middleware and without the unique constraint
	takeover                        string
	lease, maxRun, retain, remember time.Duration
	book                            string // names the file of its payments; "" is "main"
}

func (p profile) args(t *tour) []string {
	book := p.book
	if book == "" {
		book = "main"
	}
	args := []string{"demo", "--serve", "127.0.0.1:0", "--attached", "--store", t.opts.Store, "--data", filepath.Join(t.dir, book+".payments")}
	if p.naked {
		return append(args, "--naked")
	}
	if t.opts.SecretFile != "" {
		args = append(args, "--secret-file", t.opts.SecretFile)
	}
	if t.opts.Break != "" {
		args = append(args, "--break", t.opts.Break)
	}
	if p.takeover != "" {
		args = append(args, "--takeover", p.takeover)
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"--lease", p.lease}, {"--max-run", p.maxRun}, {"--retain", p.retain}, {"--remember", p.remember}} {
		if f.d != 0 {
			args = append(args, f.name, f.d.String())
		}
	}
	return args
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
	return s.main.URL, nil
}

// start starts a server that lives as long as the scene.
func (s *stage) start(ctx context.Context, p profile) (*Server, error) {
	server, err := start(ctx, s.opts.Program, p.args(s.tour))
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, server)
	return server, nil
}

// stopAll ends the scene's servers, at once when the scene failed.
func (s *stage) stopAll(failed bool) {
	for _, server := range s.servers {
		if failed {
			server.Kill()
		} else {
			server.Stop()
		}
	}
	s.sending.Wait()
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

// run runs a command of the program, as an operator would, and shows it.
func (s *stage) run(ctx context.Context, args ...string) error {
	shown := "$ ibid " + strings.Join(quoted(args), " ")
	full := append(args, "--store", s.opts.Store)
	if s.opts.SecretFile != "" {
		full = append(full, "--secret-file", s.opts.SecretFile)
	}
	out, err := exec.CommandContext(ctx, s.opts.Program, full...).CombinedOutput()
	s.step(shown, strings.TrimSpace(string(out)))
	if err != nil {
		return &BrokenError{What: shown, Expected: "success", Seen: strings.TrimSpace(string(out))}
	}
	return nil
}

func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if strings.ContainsAny(a, " {}\"'") {
			out[i] = "'" + a + "'"
		}
	}
	return out
}

// plural returns "1 charge" or "1,000 charges".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return number(n) + " " + word + "s"
}

// number writes n with a comma between thousands.
func number(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
