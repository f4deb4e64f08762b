package tour

import (
	"context"
	"encoding/json"
	"strings"
)

// Scenes about what the second, third and wrong request is answered.

func threeSends(ctx context.Context, s *stage) error {
	naked, err := s.start(ctx, profile{naked: true, book: "naked"})
	if err != nil {
		return err
	}
	r := s.payment("k", "o-naked")
	s.step("to a server without ibid and without the unique constraint:", "listening on "+naked.url)
	for range 3 {
		if err := s.send(ctx, naked.url, r).is("an answer without ibid", "201 first"); err != nil {
			return err
		}
	}
	if err := s.ledger(ctx, naked.url, "o-naked", 3); err != nil {
		return err
	}
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	r = s.payment("k", "o-1")
	s.step("to the same service inside ibid:", "listening on "+server)
	answers := []answer{s.send(ctx, server, r), s.send(ctx, server, r), s.send(ctx, server, r)}
	return all(
		s.ledger(ctx, server, "o-1", 1),
		answers[0].is("the first answer", "201 first"),
		answers[1].is("the second answer", "201 replayed"),
		answers[2].is("the third answer", "201 replayed"),
	)
}

func replay(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	pay := s.payment("replay", "o-replay")
	first, again := s.send(ctx, server, pay), s.send(ctx, server, pay)
	err = all(
		first.is("the first payment", "201 first"),
		again.is("the second payment", "201 replayed"),
		expect("the second answer, as bytes", first.wire(), again.wire()),
		s.ledger(ctx, server, "o-replay", 1),
	)
	if err != nil {
		return err
	}
	var paid struct {
		ID string `json:"payment_id"`
	}
	if err := json.Unmarshal(first.body, &paid); err != nil {
		return &BrokenError{What: "the payment", Expected: "a payment_id", Seen: first.String()}
	}
	if err := expect("the Location of the payment", "/payments/"+paid.ID, first.header.Get("Location")); err != nil {
		return err
	}
	refund := request{path: "/refunds", user: pay.user, key: pay.key, body: `{"payment_id":"` + paid.ID + `","amount":2000}`}
	first, again = s.send(ctx, server, refund), s.send(ctx, server, refund)
	return all(
		first.is("the first refund", "201 first"),
		again.is("the second refund", "201 replayed"),
		expect("the second answer, as bytes", first.wire(), again.wire()),
	)
}

func mismatch(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	r := s.payment("mismatch", "o-mismatch")
	other := r
	other.body = strings.Replace(r.body, "3000", "9000", 1)

	first, after, again := s.send(ctx, server, r), s.send(ctx, server, other), s.send(ctx, server, r)
	return all(
		first.is("the first answer", "201 first"),
		after.is("another body", "422 key-reused"),
		again.is("the first body again", "201 replayed"),
		s.ledger(ctx, server, "o-mismatch", 1),
	)
}

func noKey(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	r := s.payment("", "o-no-key")
	r.key = ""
	return all(
		s.send(ctx, server, r).is("a request without a key", "400 key-missing"),
		s.ledger(ctx, server, "o-no-key", 0),
	)
}

func malformedKeys(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	r := s.payment("", "o-malformed")
	for _, bad := range []struct {
		what  string
		lines []string
	}{
		{"two header lines", []string{"Idempotency-Key: a", "Idempotency-Key: b"}},
		{"two header lines, the same key", []string{"Idempotency-Key: a", "Idempotency-Key: a"}},
		{"an empty header", []string{"Idempotency-Key:"}},
		{"an empty string", []string{`Idempotency-Key: ""`}},
		{"a string without an end", []string{`Idempotency-Key: "abc`}},
		{"256 characters", []string{"Idempotency-Key: " + strings.Repeat("k", 256)}},
		{"a control character", []string{"Idempotency-Key: a\x01b"}},
		{"a character that is not ASCII", []string{"Idempotency-Key: schlüssel"}},
	} {
		a := s.client.sendRaw(ctx, server, r, bad.lines...)
		s.step(bad.what, a.String())
		if err := expect("the status for "+bad.what, 400, a.status); err != nil {
			return err
		}
	}
	return s.ledger(ctx, server, "o-malformed", 0)
}

func twoUsers(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	alice := s.payment("shared", "o-two-users")
	bob := alice
	bob.user = "bob"
	a, b := s.send(ctx, server, alice), s.send(ctx, server, bob)
	a2, b2 := s.send(ctx, server, alice), s.send(ctx, server, bob)
	return all(
		a.is("the first user", "201 first"),
		b.is("the second user", "201 first"),
		expect("the two answers differ", true, string(a.body) != string(b.body)),
		a2.is("the first user again", "201 replayed"),
		expect("the first user's answer again", a.wire(), a2.wire()),
		b2.is("the second user again", "201 replayed"),
		expect("the second user's answer again", b.wire(), b2.wire()),
		s.ledger(ctx, server, "o-two-users", 2),
	)
}

func large(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	const kept, tooLarge = "500000", "3000000"
	r := s.payment("large", "o-large")
	first, again := s.send(ctx, server, r.with("Demo-Pad", kept)), s.send(ctx, server, r)
	err = all(
		first.is("an answer under the limit", "201 first"),
		again.is("the same again", "201 replayed"),
		expect("the second answer is the first, byte for byte", true, first.wire() == again.wire()),
		s.ledger(ctx, server, "o-large", 1),
	)
	if err != nil {
		return err
	}
	r = s.payment("too-large", "o-too-large")
	first, again = s.send(ctx, server, r.with("Demo-Pad", tooLarge)), s.send(ctx, server, r)
	return all(
		first.is("an answer over the limit", "201 first"),
		expect("all of it arrived", true, len(first.body) > 3_000_000),
		again.is("the same again", "409 result-not-kept"),
		expect("the Location of the first answer", first.header.Get("Location"), again.header.Get("Location")),
		s.ledger(ctx, server, "o-too-large", 1),
	)
}
