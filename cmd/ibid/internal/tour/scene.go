package tour

import (
	"context"
	"fmt"

	"github.com/ibid-go/ibid"
)

// Scene is one promise, and how it is put to the test.
type Scene struct {
	// Name names the scene in a word.
	Name string
	// Title says what happens, in a line.
	Title string
	// Proves is the promise.
	Proves string
	// Survives is what the store's records must survive for the scene to mean
	// anything.
	Survives ibid.Survival

	play func(ctx context.Context, s *stage) error
}

// Scenes returns the scenes in the order of the tour.
func Scenes() []Scene {
	return []Scene{
		{
			Name: "three-sends", play: threeSends,
			Title:  "The same payment, sent three times, without ibid and with it",
			Proves: "at most one result per key: three requests, one charge",
		},
		{
			Name: "replay", play: replay,
			Title:  "A payment and its refund, each sent again",
			Proves: "same answer: status, headers and body byte for byte",
		},
		{
			Name: "mismatch", play: mismatch,
			Title:  "Another body under the same key",
			Proves: "no mix-up: what is asked under a used key is refused, and never runs",
		},
		{
			Name: "no-key", play: noKey,
			Title:  "No key",
			Proves: "a route that requires a key runs nothing without one",
		},
		{
			Name: "malformed-keys", play: malformedKeys,
			Title:  "Malformed keys",
			Proves: "a key that could be read in two ways is refused before anything runs",
		},
		{
			Name: "two-users", play: twoUsers,
			Title:  "Two users, the same key",
			Proves: "isolation: a record is visible only to the caller that made it",
		},
		{
			Name: "stampede", play: stampede,
			Title:  "2,000 requests of one key, 200 at once",
			Proves: "one claim at a time, whoever asks",
		},
		{
			Name: "duplicates", play: duplicates,
			Title:  "1,000 keys, each sent four times at once",
			Proves: "keys do not disturb each other: 1,000 payments, 1,000 charges",
		},
		{
			Name: "hang-up", play: hangUp,
			Title:  "The caller hangs up in the middle of the charge, and retries",
			Proves: "no lost result: hanging up cancels neither the work nor its recording",
		},
		{
			Name: "slow", play: slow,
			Title:  "The handler takes longer than the lease; duplicates and another body come meanwhile",
			Proves: "a claim is renewed while the work runs, and mismatch beats in progress",
		},
		{
			Name: "failures", play: failures,
			Title:  "Failures before and after the charge",
			Proves: "a failure without effect frees the key; one after the effect is unknown, and is not run again",
		},
		{
			Name: "crash-refuse", play: crashRefuse, Survives: ibid.ProcessKill,
			Title:  "kill -9 in the middle of a charge, restart, retry: takeover Refuse",
			Proves: "no guessing: the outcome is unknown until somebody who knows it resolves the key",
		},
		{
			Name: "crash-probe", play: crashProbe, Survives: ibid.ProcessKill,
			Title:  "kill -9 in the middle of a charge, restart, retry: takeover Probe",
			Proves: "a vanished attempt is looked up downstream by its derived key: done is recorded, not done runs",
		},
		{
			Name: "client-killed", play: clientKilled,
			Title:  "The client is killed between send and answer, and started again, without a journal and with one",
			Proves: "a key that is kept before the first byte is sent outlives its process: one charge",
		},
		{
			Name: "webhook", play: deliveredFiveTimes,
			Title:  "A webhook that is forged first, and then delivered five times at once",
			Proves: "the signature comes before the store: a forger burns no event, and the event is handled once",
		},
		{
			Name: "queue", play: consumerKilled,
			Title:  "A queue delivers every order twice and more, while its consumer is killed again and again",
			Proves: "transactional inbox: mark and effect are committed together, and every order is booked once",
		},
		{
			Name: "two-processes", play: twoProcesses, Survives: ibid.ProcessKill,
			Title:  "Two server processes over one store: a retry lands on the other one",
			Proves: "a store that processes share is one memory: the same answer from each, one charge",
		},
		{
			Name: "outage", play: outage,
			Title:  "The store goes away before a claim, a replay and a result, and comes back: fail closed, and fail open",
			Proves: "no guessing: 503 and nothing runs, unless a unique constraint guards the effect; what was done is recorded later",
		},
		{
			Name: "order-stock", play: orderStock,
			Title:  "60 orders compete for 20 cups, each sent twice at once",
			Proves: "a key keeps one order from happening twice, and the stock's own condition 60 from sharing 20 cups",
		},
		{
			Name: "order-crash", play: orderCrash,
			Title:  "kill -9 after each step of an order and in the middle of the charge, restart, retry",
			Proves: "finished steps are skipped, the charge is repeated under its derived key: each order is finished once",
		},
		{
			Name: "order-recover", play: orderRecover,
			Title:  "The same, the provider dies too, and no client ever asks again",
			Proves: "an order whose process died is finished from its kept request, without any retry",
		},
		{
			Name: "order-provider", play: orderProvider,
			Title:  "The payment provider is slow, loses its answer, declines the card, is down",
			Proves: "whatever the provider does, the order is finished once and the card charged once, or not at all",
		},
		{
			Name: "transactions", play: transactions,
			Title:  "200 duplicates of a payment in a transaction, while the server is killed before its commit and before its answer",
			Proves: "record, answer and payment are one commit: all of it happened, or none",
		},
		{
			Name: "large", play: large,
			Title:  "A large answer",
			Proves: "what is too large to keep reaches its first caller whole, and never runs again",
		},
		{
			Name: "expiry", play: expiry,
			Title:  "The window ends, and the key is remembered for a while",
			Proves: "a key is replayed, then refused as expired, and after that a new operation",
		},
	}
}

// BrokenError reports a promise that was not kept.
type BrokenError struct {
	What     string // what was looked at
	Expected string
	Seen     string
}

// Error implements error.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s: expected %s, saw %s", e.What, e.Expected, e.Seen)
}

// expect returns a BrokenError unless seen is what was expected.
func expect[T comparable](what string, expected, seen T) error {
	if seen == expected {
		return nil
	}
	return &BrokenError{What: what, Expected: fmt.Sprint(expected), Seen: fmt.Sprint(seen)}
}

// is expects an answer in the words of its status and kind: "201 replayed".
func (a answer) is(what, expected string) error {
	seen := a.kind()
	if a.err == nil {
		seen = fmt.Sprintf("%d %s", a.status, seen)
	}
	if seen == expected {
		return nil
	}
	return &BrokenError{What: what, Expected: expected, Seen: a.String()}
}

// all returns the first error.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
