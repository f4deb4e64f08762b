package tour

import (
	"context"
	"time"
)

// Scenes about the store: processes that share it, and its absence.

func twoProcesses(ctx context.Context, s *stage) error {
	p := profile{book: "two-processes"}
	one, err := s.start(ctx, p)
	if err != nil {
		return err
	}
	other, err := s.start(ctx, p)
	if err != nil {
		return err
	}
	s.step("two servers, one store", "listening on "+one.url+" and "+other.url)
	r := s.payment("two-processes", "o-two-processes")
	first, again := s.send(ctx, one.url, r), s.send(ctx, other.url, r)
	err = all(
		first.is("the first answer", "201 first"),
		again.is("the answer of the other process", "201 replayed"),
		expect("the second answer, as bytes", first.wire(), again.wire()),
		s.ledger(ctx, other.url, "o-two-processes", 1),
	)
	if err != nil {
		return err
	}
	storm := s.payment("two-processes-storm", "o-two-processes-storm").with("Demo-Delay", "200ms")
	seen := tally{}
	servers := []string{one.url, other.url}
	s.load(ctx, 400, 40, func(i int) answer { return s.client.send(ctx, servers[i%2], storm) }, func(_ int, a answer) { seen.add(a) })
	s.step("400 × "+storm.String()+", to both in turn", seen.String())
	return all(
		s.ledger(ctx, one.url, "o-two-processes-storm", 1),
		expect("first answers", 1, seen["201 first"]),
		seen.only("201 first", "201 replayed", "409 in-progress"),
	)
}

// outageAnswer is how long the servers of the scene try to record a result
// before they answer.
const outageAnswer = time.Second

func outage(ctx context.Context, s *stage) error {
	way, err := s.reachable(ctx)
	if err != nil {
		return err
	}
	s.after = append(s.after, way.end)
	closed, err := s.start(ctx, profile{store: way.store, answerTimeout: outageAnswer, book: "outage"})
	if err != nil {
		return err
	}
	open, err := s.start(ctx, profile{store: way.store, answerTimeout: outageAnswer, book: "outage", failOpen: true})
	if err != nil {
		return err
	}
	defer way.cut(false) // what is owed can be paid before the servers end
	s.step("a server that fails closed, and one that fails open under its unique constraint", "listening on "+closed.url+" and "+open.url)
	known, late := s.payment("out-known", "o-out-known"), s.payment("out-late", "o-out-late")
	if err := s.send(ctx, closed.url, known).is("a payment while all is well", "201 first"); err != nil {
		return err
	}
	if err := s.lostResult(ctx, way, closed.url, late); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return s.failsClosed(ctx, closed.url, known) },
		func() error { return s.failsOpen(ctx, open.url, known) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	way.cut(false)
	s.step("the store is back", "")
	var a answer
	_, err = until(ctx, patience, func() (bool, error) {
		a = s.client.send(ctx, closed.url, late)
		return a.kind() == "replayed", a.err
	})
	s.step(late.String(), a.String())
	return all(
		err,
		a.is("the payment whose result could not be recorded", "201 replayed"),
		s.ledger(ctx, closed.url, "o-out-late", 1),
		s.send(ctx, closed.url, known).is("the known payment", "201 replayed"),
		s.send(ctx, closed.url, s.payment("out-new", "o-out-new")).is("the payment that was refused", "201 first"),
		s.ledger(ctx, closed.url, "o-out-new", 1),
		expect("the status of the payment that ran under the constraint, with the store back", 409,
			s.send(ctx, open.url, s.payment("out-open", "o-out-open")).status),
		s.ledger(ctx, open.url, "o-out-open", 1),
		s.ledger(ctx, closed.url, "o-out-known", 1),
	)
}

// lostResult cuts the store off between the charge and its recording.
func (s *stage) lostResult(ctx context.Context, way *reach, server string, r request) error {
	call := s.later(ctx, server, r.with("Demo-Hold", "1s"))
	if err := s.untilCharged(ctx, server, "o-out-late"); err != nil {
		return err
	}
	way.cut(true)
	s.step("every connection to the store is cut, after the charge and before its result is recorded", "")
	a := <-call
	s.step(r.String(), a.String())
	return all(
		a.is("the answer to a result that is not recorded", "503 result-not-recorded"),
		expect("it says when to ask again", true, a.header.Get("Retry-After") != ""),
	)
}

func (s *stage) failsClosed(ctx context.Context, server string, known request) error {
	replay, fresh := s.send(ctx, server, known), s.send(ctx, server, s.payment("out-new", "o-out-new"))
	return all(
		replay.is("a replay without the store", "503 store-unavailable"),
		fresh.is("a new payment without the store", "503 store-unavailable"),
		expect("it says when to ask again", true, fresh.header.Get("Retry-After") != ""),
		s.ledger(ctx, server, "o-out-known", 1),
		s.ledger(ctx, server, "o-out-new", 0),
	)
}

func (s *stage) failsOpen(ctx context.Context, server string, known request) error {
	r := s.payment("out-open", "o-out-open")
	first := s.send(ctx, server, r)
	err := all(
		first.is("a payment under the unique constraint", "201 first"),
		expect("the guard it names", "payments_charge_key", first.header.Get("Idempotency-Degraded")),
	)
	if err != nil {
		return err
	}
	storm := s.payment("out-storm", "o-out-storm").with("Demo-Delay", "300ms") // between the row and the charge
	seen := tally{}
	s.load(ctx, 20, 20, func(int) answer { return s.client.send(ctx, server, storm) }, func(_ int, a answer) { seen.add(a) })
	s.step("20 × "+storm.String()+", at once", seen.String())
	return all(
		expect("the status of the same again, which the constraint refuses", 409, s.send(ctx, server, r).status),
		expect("the status of the payment that was recorded before", 409, s.send(ctx, server, known).status),
		seen.only("201 first", "409 conflict"),
		s.ledger(ctx, server, "o-out-open", 1),
		s.ledger(ctx, server, "o-out-storm", 1),
		s.ledger(ctx, server, "o-out-known", 1),
	)
}
