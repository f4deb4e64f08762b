package ibidclient_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidclient"
)

const jsonBody = "Content-Type: application/json\n"

// TestRules answers the first attempt with a response and looks at what
// follows: a second attempt, which succeeds, or an end with an outcome.
func TestRules(t *testing.T) {
	t.Parallel()
	const again = -1
	for _, c := range []struct {
		name    string
		why     string
		first   step
		outcome int // of the *Error; again when there must be a second attempt
		is      error
	}{
		{"409 without a body", "a server that is not ibid says in progress like this", step{status: 409}, again, nil},
		{"409 in progress", "the first attempt may still be running", problem(409, "in-progress", "Retry-After: 2"), again, nil},
		{"409 of the application", "a conflict of its own is its answer", step{status: 409, header: "Content-Type: application/problem+json", body: `{"type":"https://shop.test/sold-out"}`}, int(ibidclient.Refused), nil},
		{"409 with about:blank", "no type is no problem of its own", step{status: 409, header: "Content-Type: application/problem+json", body: `{"type":"about:blank"}`}, again, nil},
		{"409 that is a replay", "a recorded conflict comes back for ever", step{status: 409, header: "Idempotent-Replayed: true"}, int(ibidclient.Refused), nil},
		{"409 outcome unknown", "the server will not run it again: asking does not help", problem(409, "outcome-unknown", ""), int(ibidclient.Unknown), ibid.ErrUnknown},
		{"409 result not kept", "it was done", problem(409, "result-not-kept", ""), int(ibidclient.Completed), ibid.ErrNotKept},
		{"410 expired", "it was done", problem(410, "key-expired", ""), int(ibidclient.Completed), ibid.ErrExpired},
		{"425", "the server did not look at it", step{status: 425}, again, nil},
		{"425 in progress", "some servers say in progress like this", problem(425, "in-progress", ""), again, nil},
		{"429", "rate limits pass", step{status: 429}, again, nil},
		{"429 too many keys", "rate limits pass", problem(429, "too-many-keys", ""), again, nil},
		{"429 too many attempts", "the key is used up", problem(429, "too-many-attempts", ""), int(ibidclient.NotExecuted), ibid.ErrAttempts},
		{"500", "it may have run, and the server does not say that it may be asked again", step{status: 500}, int(ibidclient.Unknown), nil},
		{"500 with Retry-After", "the server says so", step{status: 500, header: "Retry-After: 1"}, again, nil},
		{"500 with Stripe-Should-Retry", "the server says so", step{status: 500, header: "Stripe-Should-Retry: true"}, again, nil},
		{"500 with transient-error", "Adyen says so", step{status: 500, header: "transient-error: true"}, again, nil},
		{"500 record damaged", "it will stay damaged", problem(500, "record-damaged", ""), int(ibidclient.Unknown), ibid.ErrDamaged},
		{"500 misconfigured", "nothing ran", problem(500, "misconfigured", ""), int(ibidclient.NotExecuted), nil},
		{"501", "no status that is retried", step{status: 501}, int(ibidclient.Unknown), nil},
		{"502", "a gateway lost the answer", step{status: 502}, again, nil},
		{"503", "overload passes", step{status: 503}, again, nil},
		{"503 not recorded", "the server goes on recording", problem(503, "result-not-recorded", ""), again, nil},
		{"503 unavailable", "nothing ran", problem(503, "store-unavailable", ""), again, nil},
		{"503 draining", "another process answers", problem(503, "draining", ""), again, nil},
		{"503 that Stripe calls final", "the server says so", step{status: 503, header: "Stripe-Should-Retry: false"}, int(ibidclient.Unknown), nil},
		{"503 that is a replay", "a recorded 503 comes back for ever", step{status: 503, header: "Idempotent-Replayed: true"}, int(ibidclient.Unknown), nil},
		{"504", "a gateway lost patience", step{status: 504}, again, nil},
		{"422", "a refusal stays one", step{status: 422}, int(ibidclient.Refused), nil},
		{"422 mismatch", "the key is another request's", problem(422, "key-reused", ""), int(ibidclient.Refused), ibid.ErrMismatch},
		{"422 that asks for a retry", "never 422, whatever else it says", step{status: 422, header: "Stripe-Should-Retry: true\ntransient-error: true\nRetry-After: 1"}, int(ibidclient.Refused), nil},
		{"422 of a type that is retried", "never 422, whatever else it says", problem(422, "in-progress", ""), int(ibidclient.Unknown), ibid.ErrInProgress},
		{"400", "a refusal stays one", step{status: 400}, int(ibidclient.Refused), nil},
		{"400 key missing", "the caller must change the request", problem(400, "key-missing", ""), int(ibidclient.Refused), ibid.ErrInvalid},
		{"400 body unreadable", "no other 4xx; nothing ran", problem(400, "body-unreadable", ""), int(ibidclient.NotExecuted), nil},
		{"400 idempotency_error", "Stripe's mismatch", step{status: 400, header: jsonBody, body: `{"error":{"type":"idempotency_error"}}`}, int(ibidclient.Refused), ibid.ErrMismatch},
		{"400 that Stripe says to retry", "the server says so", step{status: 400, header: "Stripe-Should-Retry: true"}, again, nil},
		{"409 idempotency_key_in_use", "Stripe's in progress", step{status: 409, header: jsonBody, body: `{"error":{"type":"invalid_request_error","code":"idempotency_key_in_use"}}`}, again, nil},
		{"429 lock_timeout", "Stripe's lock passes", step{status: 429, header: jsonBody, body: `{"error":{"type":"invalid_request_error","code":"lock_timeout"}}`}, again, nil},
		{"409 of PayPal", "PayPal's in progress", step{status: 409, header: jsonBody, body: `{"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`}, again, nil},
		{"402 card declined", "the answer of the operation", step{status: 402, header: jsonBody, body: `{"error":{"type":"card_error","code":"card_declined"}}`}, int(ibidclient.Refused), nil},
		{"401", "a retry is not authorised either", step{status: 401}, int(ibidclient.Refused), nil},
		{"404", "no other 4xx", step{status: 404}, int(ibidclient.Refused), nil},
		{"408", "no other 4xx", step{status: 408}, int(ibidclient.Refused), nil},
		{"202 in progress", "the operation is still running", problem(202, "in-progress", "Retry-After: 1"), again, nil},
		{"202 with Retry-After", "the operation is still running", step{status: 202, header: "Retry-After: 1"}, again, nil},
		{"a broken connection", "the answer may have been lost", step{err: errCut}, again, nil},
		{"a connection that was never there", "nothing was sent", step{err: errCut, unsent: true}, again, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := script(c.first, step{status: 201, body: "done"})
				resp, err := client(base, nil).Do(post(t, t.Context(), "{}"))
				n := len(base.attempts())
				if c.outcome == again {
					if n != 2 || read(t, resp, err) != "done" {
						t.Fatalf("%d attempts, want 2 and the answer: %s", n, c.why)
					}
					if k := base.keys(); k[0] == "" || k[0] != k[1] {
						t.Errorf("keys %q, want the same twice", k)
					}
					return
				}
				if n != 1 {
					t.Fatalf("%d attempts, want 1: %s", n, c.why)
				}
				e := failure(t, resp, err)
				if e.Outcome != ibidclient.Outcome(c.outcome) {
					t.Errorf("outcome %v, want %v: %s", e.Outcome, ibidclient.Outcome(c.outcome), c.why)
				}
				if c.is != nil && !errors.Is(e, c.is) {
					t.Errorf("error %v is not %v", e, c.is)
				}
				if e.Key != base.keys()[0] || e.Status != c.first.status || e.Attempts != 1 {
					t.Errorf("error %+v: want the key, the status and 1 attempt", e)
				}
			})
		})
	}
}

// TestFinal holds the answers that are no error and are not asked for again.
func TestFinal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		step step
	}{
		{"a success", step{status: 200, body: "x"}},
		{"an empty success", step{status: 204}},
		{"a replay", step{status: 201, header: "Idempotent-Replayed: true", body: "x"}},
		{"a 202 of a service that only accepts", step{status: 202, body: "x"}},
		{"a 202 that is a replay: it is the operation's answer", step{status: 202, header: "Retry-After: 1\nIdempotent-Replayed: true"}},
		{"a 304", step{status: 304}},
	} {
		synctest.Test(t, func(t *testing.T) {
			base := script(c.step)
			resp, err := client(base, nil).Do(post(t, t.Context(), "{}"))
			if err := ibidclient.Check(resp, err); err != nil {
				t.Errorf("%s: %v", c.why, err)
			}
			if got := read(t, resp, err); got != c.step.body || len(base.attempts()) != 1 {
				t.Errorf("%s: body %q after %d attempts", c.why, got, len(base.attempts()))
			}
			if got := ibidclient.Replayed(resp); got != (c.step.header != "") {
				t.Errorf("%s: Replayed is %v", c.why, got)
			}
		})
	}
}

// TestOutcomeOfSeveralAttempts: what an earlier attempt left open stays open,
// unless a later answer settles it.
func TestOutcomeOfSeveralAttempts(t *testing.T) {
	t.Parallel()
	lost := step{err: errCut}
	refused := step{err: errCut, unsent: true}
	for _, c := range []struct {
		name  string
		steps []step
		want  ibidclient.Outcome
	}{
		{"no attempt got through", []step{refused}, ibidclient.NotExecuted},
		{"the first was lost, the others got nowhere", []step{lost, refused}, ibidclient.Unknown},
		{"the first got nowhere, the last was lost", []step{refused, refused, refused, refused, lost}, ibidclient.Unknown},
		{"rate limited throughout", []step{{status: 429}}, ibidclient.NotExecuted},
		{"lost, then rate limited", []step{lost, {status: 429}}, ibidclient.Unknown},
		{"lost, then the store is unavailable", []step{lost, problem(503, "store-unavailable", "")}, ibidclient.Unknown},
		{"the store is unavailable throughout", []step{problem(503, "store-unavailable", "")}, ibidclient.NotExecuted},
		{"in progress throughout", []step{problem(409, "in-progress", "")}, ibidclient.Unknown},
		{"lost, then no longer authorised: the server did not look at the key", []step{lost, {status: 401}}, ibidclient.Unknown},
		{"rate limited, then not authorised", []step{{status: 429}, {status: 401}}, ibidclient.Refused},
		{"lost, then declined: the answer of the operation", []step{lost, {status: 402}}, ibidclient.Refused},
		{"lost, then a replayed refusal", []step{lost, {status: 404, header: "Idempotent-Replayed: true"}}, ibidclient.Refused},
		{"lost, then mismatch: the key was never this request's", []step{lost, problem(422, "key-reused", "")}, ibidclient.Refused},
		{"lost, then expired", []step{lost, problem(410, "key-expired", "")}, ibidclient.Completed},
		{"lost, then attempts used up: none of them had an effect", []step{lost, problem(429, "too-many-attempts", "")}, ibidclient.NotExecuted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				resp, err := client(script(c.steps...), nil).Do(post(t, t.Context(), "{}"))
				if e := failure(t, resp, err); e.Outcome != c.want {
					t.Errorf("outcome %v, want %v (%v)", e.Outcome, c.want, e)
				}
			})
		})
	}
}

// TestPolling: 202 is polled within the bounds of retries, and is no answer
// when they are over.
func TestPolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := script(step{status: 202, header: "Retry-After: 3"})
		resp, err := client(base, nil).Do(post(t, t.Context(), "{}"))
		e := failure(t, resp, err)
		if len(base.attempts()) != 5 || e.Outcome != ibidclient.Unknown || !errors.Is(e, ibid.ErrInProgress) || !errors.Is(e, ibidclient.ErrExhausted) {
			t.Errorf("%d attempts, %v", len(base.attempts()), e)
		}
		if resp == nil || resp.StatusCode != 202 {
			t.Error("the last response is not returned")
		}
	})
}

// TestRetryHook: the caller knows its server better than the rules do.
func TestRetryHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := script(step{status: 418}, step{status: 418}, step{status: 200})
		opts := &ibidclient.Options{Retry: func(resp *http.Response, retry bool) bool { return retry || resp.StatusCode == 418 }}
		if resp, err := client(base, opts).Do(post(t, t.Context(), "")); err != nil || resp.StatusCode != 200 {
			t.Errorf("418 was not retried: %v %v", resp, err)
		}
		base = script(step{status: 202, header: "Retry-After: 3"})
		opts = &ibidclient.Options{Retry: func(*http.Response, bool) bool { return false }}
		resp, err := client(base, opts).Do(post(t, t.Context(), ""))
		if err := ibidclient.Check(resp, err); err != nil || len(base.attempts()) != 1 {
			t.Errorf("a 202 that is final: %v after %d attempts", err, len(base.attempts()))
		}
	})
}

// TestCheckForeign: Check understands what did not come from a Transport.
func TestCheckForeign(t *testing.T) {
	t.Parallel()
	req := post(t, context.Background(), "")
	e := failure(t, problem(422, "key-reused", "").response(req), nil)
	if e.Outcome != ibidclient.Refused || !errors.Is(e, ibid.ErrMismatch) {
		t.Errorf("mismatch of a plain client: %v", e)
	}
	if e := failure(t, nil, errCut); e.Outcome != ibidclient.Unknown || !errors.Is(e, errCut) {
		t.Errorf("error of a plain client: %v", e)
	}
}
