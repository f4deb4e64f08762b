package tour

import (
	"context"
	"strings"
	"time"
)

// Scenes about callers that leave, handlers that take long or fail, and time
// that passes.

func hangUp(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	r := s.payment("hang-up", "o-hang-up")
	held := r.with("Demo-Hold", "1s")
	calling, hangUp := context.WithCancel(ctx)
	defer hangUp()
	caller := s.later(calling, server, held)
	if err := s.untilCharged(ctx, server, "o-hang-up"); err != nil {
		return err
	}
	hangUp()
	<-caller
	s.step(held.String(), "nothing: the caller hangs up as soon as the ledger holds the charge")
	var again answer
	if _, err := until(ctx, patience, func() (bool, error) {
		again = s.client.send(ctx, server, r)
		return again.kind() != "in-progress", again.err
	}); err != nil {
		return err
	}
	s.step(r.String()+", until it is not in progress", again.String())
	return all(
		s.ledger(ctx, server, "o-hang-up", 1),
		again.is("the retry", "201 replayed"),
	)
}

func slow(ctx context.Context, s *stage) error {
	const lease, takes, every = 2 * time.Second, "5s", 500 * time.Millisecond
	server, err := s.start(ctx, profile{lease: lease})
	if err != nil {
		return err
	}
	r := s.payment("slow", "o-slow")
	other := r
	other.body = strings.Replace(r.body, "3000", "9000", 1)
	held := r.with("Demo-Hold", takes)
	running := s.later(ctx, server.url, held)
	if err := s.untilCharged(ctx, server.url, "o-slow"); err != nil {
		return err
	}
	s.step(held.String(), "nothing yet: it is charged, and not answered; the lease is "+lease.String())
	meanwhile := s.send(ctx, server.url, other)
	seen := tally{}
	var first answer
	for first.status == 0 && first.err == nil {
		seen.add(s.client.send(ctx, server.url, r))
		s.opts.Out.Progress(seen["409 in-progress"], int(5*time.Second/every))
		select {
		case first = <-running:
		case <-time.After(every):
		}
	}
	s.step("the same, every "+every.String()+" meanwhile", seen.String())
	s.step("… the first request", first.String())
	again := s.send(ctx, server.url, r)
	return all(
		s.ledger(ctx, server.url, "o-slow", 1),
		first.is("the first answer", "201 first"),
		// The last may have been sent after the first was answered.
		seen.only("409 in-progress", "201 replayed"),
		meanwhile.is("another body meanwhile", "422 key-reused"),
		again.is("the same afterwards", "201 replayed"),
	)
}

func failures(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	before := s.payment("fail-before", "o-fail-before")
	failed, again := s.send(ctx, server, before.with("Demo-Fail", "503-before")), s.send(ctx, server, before)
	err = all(
		failed.is("a failure before the charge", "503 service unavailable"),
		again.is("the retry", "201 first"),
		s.ledger(ctx, server, "o-fail-before", 1),
	)
	if err != nil {
		return err
	}
	for _, how := range []string{"500-after", "panic-after"} {
		order := "o-" + how
		r := s.payment(how, order)
		s.send(ctx, server, r.with("Demo-Fail", how))
		again := s.send(ctx, server, r)
		err := all(
			again.is("the retry after "+how, "409 outcome-unknown"),
			s.ledger(ctx, server, order, 1),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func expiry(ctx context.Context, s *stage) error {
	const retain, remember = 3 * time.Second, 3 * time.Second
	server, err := s.start(ctx, profile{lease: time.Second, maxRun: 2 * time.Second, retain: retain, remember: remember})
	if err != nil {
		return err
	}
	r := s.payment("expiry", "o-expiry")
	first := s.send(ctx, server.url, r)
	again := s.send(ctx, server.url, r)
	err = all(
		first.is("the first answer", "201 first"),
		again.is("the same at once", "201 replayed"),
		pauseFor(ctx, retain),
	)
	if err != nil {
		return err
	}
	s.step("… wait for "+retain.String(), "the window is over")
	expired := s.send(ctx, server.url, r)
	if err := all(expired.is("the same after the window", "410 key-expired"), pauseFor(ctx, remember)); err != nil {
		return err
	}
	s.step("… wait for "+remember.String(), "the key is forgotten: the same request is a new operation, and only the unique constraint knows better")
	last := s.send(ctx, server.url, r)
	return all(
		last.is("the same after the key was forgotten", "409 conflict"),
		expect("the Location that the constraint points to", first.header.Get("Location"), last.header.Get("Location")),
		s.ledger(ctx, server.url, "o-expiry", 1),
	)
}
