package tour

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Scenes about orders, whose steps lie in two places: a database of the shop, and
// a payment provider that is a process of its own.

// stopPoints are where an order is stopped, to be killed there: in the middle of the
// charge, when the card is charged and nothing says so; after each step; and when all
// is recorded and not answered.
var stopPoints = []string{"reserve", "charging", "charge", "order", "receipt", "answer"}

func orderStock(ctx context.Context, s *stage) error {
	const item, orders, stock = "cups", 60, 20
	_, provider, shop, err := s.shop(ctx, item, stock, 0)
	if err != nil {
		return err
	}
	seen := tally{}
	placed := map[int]bool{} // order → it was carried out
	s.load(ctx, 2*orders, 32, func(i int) answer {
		a, err := s.untilDone(ctx, shop.url, s.orderOf(item, fmt.Sprintf("o-cup-%d", i/2)))
		if err != nil {
			return answer{err: err}
		}
		return a
	}, func(i int, a answer) {
		seen.add(a)
		if a.status == http.StatusCreated {
			placed[i/2] = true
		}
	})
	s.step(fmt.Sprintf("%d orders of one cup each, %d in stock, each sent twice at once", orders, stock), seen.String())
	var names []string
	for i := range orders {
		order := fmt.Sprintf("o-cup-%d", i)
		if placed[i] {
			names = append(names, order)
			continue
		}
		n, err := s.cardCharges(ctx, provider.url, order)
		if err := all(err, expect("charges of the card for an order that was refused", 0, n)); err != nil {
			return err
		}
	}
	return all(
		expect("orders that were carried out", stock, len(placed)),
		seen.only("201 first", "201 replayed", "409 conflict", "409 replayed"),
		expect("first answers", stock, seen["201 first"]),
		expect("refusals", orders-stock, seen["409 conflict"]),
		s.finishedOnce(ctx, provider.url, shop.url, item, 0, names...),
	)
}

// killAtEveryPoint sends an order to each of the points, and kills the shop with all of them.
func (s *stage) killAtEveryPoint(ctx context.Context, shop *server, item string) (orders []string, err error) {
	var calls []<-chan answer
	for _, point := range stopPoints {
		order := "o-" + item + "-" + point
		orders = append(orders, order)
		calls = append(calls, s.later(ctx, shop.url, s.orderOf(item, order).with("Demo-Stop", point)))
	}
	if err := s.untilHeld(ctx, shop.url, stopPoints...); err != nil {
		return nil, err
	}
	shop.kill()
	seen := tally{}
	for _, call := range calls {
		seen.add(<-call)
	}
	s.step(fmt.Sprintf("%d × POST /orders  Demo-Stop: %s", len(calls), strings.Join(stopPoints, ", ")), seen.String())
	s.step(fmt.Sprintf("$ kill -9 %d", shop.cmd.Process.Pid), "the shop is dead after each step, in the middle of a charge, and before an answer")
	return orders, seen.only("no answer")
}

func orderCrash(ctx context.Context, s *stage) error {
	const item = "plates"
	p, provider, shop, err := s.shop(ctx, item, 10, crashLease/2)
	if err != nil {
		return err
	}
	orders, err := s.killAtEveryPoint(ctx, shop, item)
	if err != nil {
		return err
	}
	if shop, err = s.start(ctx, p); err != nil {
		return err
	}
	s.step("the shop is started again, over the same file", "listening on "+shop.url)
	for i, order := range orders {
		r := s.orderOf(item, order)
		a, err := s.untilDone(ctx, shop.url, r)
		s.step(r.String()+", until the lease of the dead is over", a.String())
		want := "201 first"
		if stopPoints[i] == "answer" {
			want = "201 replayed" // it was only not answered
		}
		err = all(err,
			a.is("the retry after the crash", want),
			s.client.send(ctx, shop.url, r).is("the next retry", "201 replayed"),
		)
		if err != nil {
			return err
		}
	}
	return s.finishedOnce(ctx, provider.url, shop.url, item, 10-int64(len(orders)), orders...)
}

func orderRecover(ctx context.Context, s *stage) error {
	const item = "bowls"
	p, provider, shop, err := s.shop(ctx, item, 10, crashLease/2)
	if err != nil {
		return err
	}
	orders, err := s.killAtEveryPoint(ctx, shop, item)
	if err != nil {
		return err
	}
	s.kill(provider, "the provider is dead, too")
	p.recover = 250 * time.Millisecond
	if shop, err = s.start(ctx, p); err != nil {
		return err
	}
	s.step("the shop is started again; it looks for orders whose process died", "listening on "+shop.url)
	// The first two need the provider, the others were charged.
	err = s.untilFinished(ctx, shop.url, item, orders[2:]...)
	s.step("… wait, and send nothing", "the orders that were charged are finished, without the provider")
	if err != nil {
		return err
	}
	if provider, err = s.restart(ctx, provider, item); err != nil {
		return err
	}
	err = s.untilFinished(ctx, shop.url, item, orders...)
	s.step("… wait, and send nothing", "all orders are finished")
	if err != nil {
		return err
	}
	for _, order := range orders {
		a, err := s.untilDone(ctx, shop.url, s.orderOf(item, order))
		if err := all(err, a.is("the first retry of "+s.order(order), "201 replayed")); err != nil {
			return err
		}
	}
	return s.finishedOnce(ctx, provider.url, shop.url, item, 10-int64(len(orders)), orders...)
}

// untilFinished waits until the shop has queued a receipt for each order, without asking
// for any of them.
func (s *stage) untilFinished(ctx context.Context, shop, item string, orders ...string) error {
	for _, order := range orders {
		finished, err := until(ctx, patience, func() (bool, error) {
			b, err := s.books(ctx, shop, item, order)
			return b.Receipts > 0, err
		})
		if err := all(err, expect("that "+s.order(order)+" is finished without a retry", true, finished)); err != nil {
			return err
		}
	}
	return nil
}

// restart starts a provider again where it listened, over the same file.
func (s *stage) restart(ctx context.Context, dead *server, name string) (*server, error) {
	server, err := s.startProvider(ctx, name, strings.TrimPrefix(dead.url, "http://"))
	if err == nil {
		s.step("the provider is started again, over the same file", "listening on "+server.url)
	}
	return server, err
}

func orderProvider(ctx context.Context, s *stage) error {
	const item = "forks"
	_, provider, shop, err := s.shop(ctx, item, 10, 0)
	if err != nil {
		return err
	}
	for _, fault := range []string{"slow", "lose"} {
		r := s.orderOf(item, "o-forks-"+fault)
		a, err := s.untilDone(ctx, shop.url, r.with("Demo-Provider", fault))
		s.step(r.with("Demo-Provider", fault).String(), a.String())
		err = all(err,
			a.is("the order", "201 first"),
			s.send(ctx, shop.url, r).is("the same again", "201 replayed"),
			s.finishedOnce(ctx, provider.url, shop.url, item, map[string]int64{"slow": 9, "lose": 8}[fault], "o-forks-"+fault),
		)
		if err != nil {
			return err
		}
	}
	declined := s.orderOf(item, "o-forks-declined")
	err = all(
		s.send(ctx, shop.url, declined.with("Demo-Provider", "decline")).is("an order whose card is declined", "402 payment required"),
		s.send(ctx, shop.url, declined).is("the same again", "402 replayed"),
	)
	if err != nil {
		return err
	}
	if n, err := s.cardCharges(ctx, provider.url, "o-forks-declined"); err != nil || n > 0 {
		return all(err, expect("charges of the card that was declined", 0, n))
	}
	s.kill(provider, "the provider is dead")
	down := s.orderOf(item, "o-forks-down")
	for range 2 {
		if err := s.send(ctx, shop.url, down).is("an order while the provider is down", "503 service unavailable"); err != nil {
			return err
		}
	}
	if provider, err = s.restart(ctx, provider, item); err != nil {
		return err
	}
	return all(
		s.send(ctx, shop.url, down).is("the retry when it is back", "201 first"),
		s.send(ctx, shop.url, down).is("the same again", "201 replayed"),
		s.finishedOnce(ctx, provider.url, shop.url, item, 7, "o-forks-down"),
	)
}

// transactions kills the server twice under 200 duplicates of a wallet payment: before its
// commit, and between that and the first answer.
func transactions(ctx context.Context, s *stage) error {
	const copies, balance, amount = 200, 10_000, 300
	p := profile{shop: "wallet"}
	server, err := s.start(ctx, p)
	if err != nil {
		return err
	}
	if err := s.put(ctx, server.url, "/wallets/"+defaultUser, balance); err != nil {
		return err
	}
	r := s.payment("wallet", "o-wallet")
	r.path, r.body = "/wallet/payments", fmt.Sprintf(`{"order_id":%q,"amount":%d}`, s.order("o-wallet"), amount)

	type target struct {
		url  string
		send request
	}
	var at atomic.Pointer[target] // where the duplicates go now
	at.Store(&target{server.url, r.with("Demo-Stop", "wallet")})
	sending, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var shown []Step
	kill := func(what string, next request) error {
		server.kill()
		shown = append(shown, Step{Sent: fmt.Sprintf("$ kill -9 %d", server.cmd.Process.Pid), Got: what})
		if server, err = s.start(ctx, p); err != nil {
			return err
		}
		at.Store(&target{server.url, next})
		return nil
	}
	killed := make(chan error, 1)
	go func() {
		err := s.untilHeld(ctx, server.url, "wallet")
		if err == nil {
			err = kill("the server is dead: the payment is written, and not committed", r.with("Demo-Stop", "answer"))
		}
		if err == nil {
			err = s.untilHeld(ctx, server.url, "answer")
		}
		if err == nil {
			err = kill("the server is dead: all is committed, and nobody was answered", r)
		}
		if err != nil {
			fail(err)
		}
		killed <- err
	}()

	seen := tally{}
	bodies := map[string]int{} // body → how often
	var broken atomic.Int64    // requests that the kills left without an answer
	s.load(sending, copies, copies, func(int) answer {
		for {
			to := at.Load()
			a := s.client.send(sending, to.url, to.send)
			switch {
			case a.err != nil:
				broken.Add(1)
			case a.kind() != "in-progress":
				return a
			}
			if pauseFor(sending, 50*time.Millisecond) != nil {
				return a
			}
		}
	}, func(_ int, a answer) {
		seen.add(a)
		bodies[string(a.body)]++
	})
	if err := <-killed; err != nil {
		return err
	}
	for _, st := range shown {
		s.record(st)
	}
	s.step(fmt.Sprintf("%d × %s, at once, each until it is answered", copies, r),
		fmt.Sprintf("%s, after %d connections that broke", seen, broken.Load()))
	b, err := s.books(ctx, server.url, "", "o-wallet")
	if err != nil {
		return err
	}
	s.charges[s.order("o-wallet")] = b.Entries
	s.record(Step{
		Sent: "GET /books?order_id=" + s.order("o-wallet"), Charges: &b.Entries,
		Got: fmt.Sprintf("%s of %s, %d of %d left in the wallet", plural(b.Entries, "charge"), s.order("o-wallet"), b.Balance, balance),
	})
	return all(
		expect("payments of the order", 1, b.Entries),
		expect("what is left in the wallet", int64(balance-amount), b.Balance),
		seen.only("201 replayed"), // the first answer was lost with the server
		expect("different payments among the answers", 1, len(bodies)),
		s.send(ctx, server.url, r).is("one more", "201 replayed"),
	)
}
