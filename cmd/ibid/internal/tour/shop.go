package tour

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What the scenes about orders share: a provider, a shop, and questions to both.

// orderOf returns a request for one of item; order and item are made the tour's
// own.
func (s *stage) orderOf(item, order string) request {
	r := s.payment("key-"+order, order)
	r.path = "/orders"
	r.body = fmt.Sprintf(`{"order_id":%q,"item":%q,"quantity":1,"amount":3000,"currency":"TWD"}`, s.order(order), s.order(item))
	return r
}

// startProvider starts a payment provider at addr, with the charges of the file of that name.
func (s *stage) startProvider(ctx context.Context, name, addr string) (*server, error) {
	server, err := start(ctx, s.opts.Program, []string{"provider", "--serve", addr, "--attached", "--data", filepath.Join(s.dir, name+".charges")})
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, server)
	return server, nil
}

// shop starts a provider and a shop whose claims hold for lease, and puts n pieces of the
// item of that name into its stock.
func (s *stage) shop(ctx context.Context, name string, n int, lease time.Duration) (p profile, provider, shop *server, err error) {
	if provider, err = s.startProvider(ctx, name, "127.0.0.1:0"); err != nil {
		return p, nil, nil, err
	}
	p = profile{shop: name, provider: provider.url, lease: lease}
	if shop, err = s.start(ctx, p); err != nil {
		return p, nil, nil, err
	}
	return p, provider, shop, s.put(ctx, shop.url, "/stock/"+s.order(name), n)
}

// put says how much there is.
func (s *stage) put(ctx context.Context, server, path string, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, server+path, strings.NewReader(fmt.Sprint(n)))
	if err != nil {
		return err
	}
	a := read(s.client.http.Do(req))
	s.step(fmt.Sprintf("PUT %s  %d", path, n), fmt.Sprint(a.status))
	if a.err != nil {
		return a.err
	}
	return expect("the status of PUT "+path, http.StatusNoContent, a.status)
}

// get asks server for what into takes.
func (c *client) get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	a := read(c.http.Do(req))
	if a.err != nil {
		return fmt.Errorf("ask %s: %w", address, a.err)
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, into) != nil {
		return fmt.Errorf("ask %s: %s", address, a)
	}
	return nil
}

// books is what a shop holds of an order, an item and a wallet.
type books struct {
	Reserved, Orders, Receipts, Entries int
	Stock, Balance                      int64
}

// books asks the shop for an order of item, and for the wallet of the default user.
func (s *stage) books(ctx context.Context, shop, item, order string) (books, error) {
	q := url.Values{"order_id": {s.order(order)}, "item": {s.order(item)}, "user": {defaultUser}}
	var b books
	return b, s.client.get(ctx, shop+"/books?"+q.Encode(), &b)
}

// cardCharges returns how often the provider has charged for order.
func (s *stage) cardCharges(ctx context.Context, provider, order string) (int, error) {
	var l struct{ Count *int }
	err := s.client.get(ctx, provider+"/charges?order_id="+url.QueryEscape(s.order(order)), &l)
	if err == nil && l.Count == nil {
		err = fmt.Errorf("the provider does not say how often it charged for %s", s.order(order))
	}
	if err != nil {
		return 0, err
	}
	s.charges[s.order(order)] = *l.Count
	return *l.Count, nil
}

// finishedOnce expects each order to be charged, reserved, written and
// receipted once, and left of item to be in stock.
func (s *stage) finishedOnce(ctx context.Context, provider, shop, item string, left int64, orders ...string) error {
	total := 0
	for _, order := range orders {
		n, err := s.cardCharges(ctx, provider, order)
		if err != nil {
			return err
		}
		total += n
		b, err := s.books(ctx, shop, item, order)
		if err != nil {
			return err
		}
		b.Stock, b.Balance = 0, 0
		err = all(
			expect("charges of the card for "+s.order(order), 1, n),
			expect("what the shop holds of "+s.order(order), books{Reserved: 1, Orders: 1, Receipts: 1}, b),
		)
		if err != nil {
			return err
		}
	}
	what := "each reserved, written and receipted once"
	if len(orders) == 1 {
		what = "reserved, written and receipted once"
	}
	s.record(Step{
		Sent: fmt.Sprintf("GET /charges and GET /books, for each of %s", plural(len(orders), "order")), Charges: &total,
		Got: fmt.Sprintf("%s of the card for %s, %s", plural(total, "charge"), plural(len(orders), "order"), what),
	})
	b, err := s.books(ctx, shop, item, "")
	if err != nil {
		return err
	}
	return expect("what is left in stock", left, b.Stock)
}

// untilHeld waits until requests stop at all the points.
func (s *stage) untilHeld(ctx context.Context, shop string, points ...string) error {
	want := slices.Sorted(slices.Values(points))
	var held struct{ Points []string }
	there, err := until(ctx, patience, func() (bool, error) {
		err := s.client.get(ctx, shop+"/held", &held)
		return slices.Equal(held.Points, want), err
	})
	if err != nil || there {
		return err
	}
	return &BrokenError{What: "the points where requests stop", Expected: fmt.Sprint(want), Seen: fmt.Sprint(held.Points)}
}

// untilDone sends r until it is answered for good: not that it is in progress, and not that
// somebody else does not answer.
func (s *stage) untilDone(ctx context.Context, server string, r request) (answer, error) {
	var a answer
	_, err := until(ctx, crashLease+patience, func() (bool, error) {
		a = s.client.send(ctx, server, r)
		return a.kind() != "in-progress" && a.status != http.StatusServiceUnavailable, a.err
	})
	return a, err
}

// kill kills a process, and shows it.
func (s *stage) kill(server *server, what string) {
	server.kill()
	s.step(fmt.Sprintf("$ kill -9 %d", server.cmd.Process.Pid), what)
}
