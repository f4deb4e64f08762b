package tour

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Scenes about many requests at once.

// tally counts answers by sort.
type tally map[string]int // "201 replayed" → how many

func (t tally) add(a answer) {
	kind := a.kind()
	if a.err == nil {
		kind = fmt.Sprintf("%d %s", a.status, kind)
	}
	t[kind]++
}

func (t tally) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, number(t[kind])+" × "+kind)
	}
	return strings.Join(parts, ", ")
}

// only expects no other sorts than those allowed.
func (t tally) only(allowed ...string) error {
	for kind := range t {
		if !slices.Contains(allowed, kind) {
			return &BrokenError{What: "the answers", Expected: "only " + strings.Join(allowed, ", "), Seen: t.String()}
		}
	}
	return nil
}

func stampede(ctx context.Context, s *stage) error {
	const requests, parallel = 2000, 200
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	r := s.payment("stampede", "o-stampede").with("Demo-Delay", "300ms")
	seen := tally{}
	bodies := map[string]int{} // body of a 201 → how often
	s.load(ctx, requests, parallel, func(int) answer { return s.client.send(ctx, server, r) }, func(_ int, a answer) {
		seen.add(a)
		if a.status == 201 {
			bodies[string(a.body)]++
		}
	})
	s.step(number(requests)+" × "+r.String(), seen.String())
	return all(
		s.ledger(ctx, server, "o-stampede", 1),
		seen.only("201 first", "201 replayed", "409 in-progress"),
		expect("first answers", 1, seen["201 first"]),
		expect("different payments among the answers", 1, len(bodies)),
		s.send(ctx, server, r).is("one more", "201 replayed"),
	)
}

func duplicates(ctx context.Context, s *stage) error {
	const keys, copies, parallel = 1000, 4, 64
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	seen := tally{}
	first := make([]string, keys)
	differ := 0
	// Neighbours in the order of sending are copies of one request, so that
	// they meet. A client that is told "in progress" asks again.
	ask := func(i int) answer {
		k := i / copies
		r := s.payment(fmt.Sprintf("many-%d", k), fmt.Sprintf("o-many-%d", k))
		for {
			a := s.client.send(ctx, server, r)
			if a.kind() != "in-progress" || pauseFor(ctx, 20*time.Millisecond) != nil {
				return a
			}
		}
	}
	s.load(ctx, keys*copies, parallel, ask, func(i int, a answer) {
		seen.add(a)
		switch k := i / copies; {
		case first[k] == "":
			first[k] = string(a.body)
		case first[k] != string(a.body):
			differ++
		}
	})
	s.step(fmt.Sprintf("%s keys × %d × POST /payments, asked again while in progress", number(keys), copies), seen.String())
	total := 0
	for k := range keys {
		order := s.order(fmt.Sprintf("o-many-%d", k))
		charges, err := s.client.ledger(ctx, server, order)
		if err != nil {
			return err
		}
		s.charges[order] = len(charges)
		total += len(charges)
		if err := expect("charges of "+order, 1, len(charges)); err != nil {
			return err
		}
	}
	s.record(Step{Sent: fmt.Sprintf("GET /ledger, for each of %s orders", number(keys)), Got: plural(total, "charge"), Charges: &total})
	return all(
		expect("charges in all", keys, total),
		seen.only("201 first", "201 replayed"),
		expect("first answers", keys, seen["201 first"]),
		expect("replays", keys*(copies-1), seen["201 replayed"]),
		expect("answers that differ from the first of their key", 0, differ),
	)
}
