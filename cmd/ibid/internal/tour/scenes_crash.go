package tour

import (
	"context"
	"fmt"
	"time"
)

// Scenes about processes that are killed: one payment is charged and not
// answered, another is claimed and not charged, and then nothing runs any more.

// crashLease is how long the claims of a dead process hold.
const crashLease = 2 * time.Second

// crash starts a server, kills it in the middle of both payments, and starts it
// again. Its claims lapse a little later.
func (s *stage) crash(ctx context.Context, takeover string, charged, uncharged, settled request) (*server, error) {
	p := profile{takeover: takeover, lease: crashLease}
	server, err := s.start(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, server.url, settled).is("a payment before the crash", "201 first"); err != nil {
		return nil, err
	}
	calls := []<-chan answer{
		s.later(ctx, server.url, charged.with("Demo-Hold", "1m")),
		s.later(ctx, server.url, uncharged.with("Demo-Delay", "1m")),
	}
	if err := s.untilCharged(ctx, server.url, "o-charged-"+takeover); err != nil {
		return nil, err
	}
	if err := s.untilInProgress(ctx, uncharged); err != nil {
		return nil, err
	}
	server.kill()
	s.step(charged.with("Demo-Hold", "1m").String(), (<-calls[0]).String())
	s.step(uncharged.with("Demo-Delay", "1m").String(), (<-calls[1]).String())
	s.step(fmt.Sprintf("$ kill -9 %d", server.cmd.Process.Pid), "the server is dead: one of the two was charged, the other was not")
	if server, err = s.start(ctx, p); err != nil {
		return nil, err
	}
	s.step("the server is started again, over the same files", "listening on "+server.url)
	return server, s.send(ctx, server.url, settled).is("the payment before the crash", "201 replayed")
}

// settled asks until the claim of the dead process has lapsed.
func (s *stage) settled(ctx context.Context, server string, r request) (answer, error) {
	early := s.client.send(ctx, server, r)
	if early.kind() != "in-progress" {
		s.step(r.String(), early.String())
		return early, early.err
	}
	s.step(r.String(), early.String())
	var a answer
	_, err := until(ctx, crashLease+patience, func() (bool, error) {
		a = s.client.send(ctx, server, r)
		return a.kind() != "in-progress", a.err
	})
	s.step("… again, until the lease of the dead is over", a.String())
	return a, err
}

func crashRefuse(ctx context.Context, s *stage) error {
	charged, uncharged := s.payment("charged-r", "o-charged-refuse"), s.payment("uncharged-r", "o-uncharged-refuse")
	server, err := s.crash(ctx, "refuse", charged, uncharged, s.payment("settled-r", "o-settled-refuse"))
	if err != nil {
		return err
	}
	for _, r := range []request{charged, uncharged} {
		a, err := s.settled(ctx, server.url, r)
		if err := all(err, a.is("the retry after the crash", "409 outcome-unknown")); err != nil {
			return err
		}
	}
	err = all(s.ledger(ctx, server.url, "o-charged-refuse", 1), s.ledger(ctx, server.url, "o-uncharged-refuse", 0))
	if err != nil {
		return err
	}
	// The operator looks into the ledger, and says what he found.
	charges, err := s.client.ledger(ctx, server.url, s.order("o-charged-refuse"))
	if err != nil {
		return err
	}
	id := charges[0].PaymentID
	body := `{"payment_id":"` + id + `","order_id":"` + s.order("o-charged-refuse") + `","amount":3000,"currency":"TWD","status":"completed"}`
	err = all(
		s.resolve(ctx, charged, "--status", "201", "--header", "Location: /payments/"+id,
			"--header", "Content-Type: application/json", "--body", body),
		s.resolve(ctx, uncharged, "--not-done"),
	)
	if err != nil {
		return err
	}
	done, notDone := s.send(ctx, server.url, charged), s.send(ctx, server.url, uncharged)
	return all(
		done.is("the retry of what was resolved as done", "201 replayed"),
		expect("its body", body, string(done.body)),
		expect("its Location", "/payments/"+id, done.header.Get("Location")),
		notDone.is("the retry of what was resolved as not done", "201 first"),
		s.ledger(ctx, server.url, "o-charged-refuse", 1),
		s.ledger(ctx, server.url, "o-uncharged-refuse", 1),
		s.ledger(ctx, server.url, "o-settled-refuse", 1),
	)
}

func crashProbe(ctx context.Context, s *stage) error {
	charged, uncharged := s.payment("charged-p", "o-charged-probe"), s.payment("uncharged-p", "o-uncharged-probe")
	server, err := s.crash(ctx, "probe", charged, uncharged, s.payment("settled-p", "o-settled-probe"))
	if err != nil {
		return err
	}
	for _, r := range []request{charged, uncharged} {
		a, err := s.settled(ctx, server.url, r)
		if err := all(err, expect("the status of the retry after the crash", 201, a.status)); err != nil {
			return err
		}
		if err := s.send(ctx, server.url, r).is("the next retry", "201 replayed"); err != nil {
			return err
		}
	}
	return all(
		s.ledger(ctx, server.url, "o-charged-probe", 1),
		s.ledger(ctx, server.url, "o-uncharged-probe", 1),
		s.ledger(ctx, server.url, "o-settled-probe", 1),
	)
}
