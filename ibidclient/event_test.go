package ibidclient_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// TestEvents: what observers are told of a request, attempt by attempt.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"answered at once", []step{{status: 201}}, []string{
			"attempt 1 status 201", "answered 1 status 201",
		}},
		{"answered after retries", []step{{err: errCut}, problem(409, "in-progress", "Retry-After: 2"), {status: 201, header: "Idempotent-Replayed: true"}}, []string{
			"attempt 1 error", "retry 1 error", "attempt 2 status 409 in-progress", "retry 2 status 409 in-progress",
			"attempt 3 status 201 replayed", "answered 3 status 201 replayed",
		}},
		{"failed", []step{{err: errCut, unsent: true}}, []string{
			"attempt 1 error", "retry 1 error", "attempt 2 error", "failed 2 error",
		}},
		{"refused by the server", []step{problem(422, "key-reused", "")}, []string{
			"attempt 1 status 422 key-reused", "answered 1 status 422 key-reused",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got []string
				var took time.Duration
				opts := &ibidclient.Options{Attempts: 3, Observe: []func(context.Context, ibidclient.Event){func(_ context.Context, e ibidclient.Event) {
					s := fmt.Sprint(e.Kind, " ", e.Attempt)
					if e.Status != 0 {
						s += fmt.Sprint(" status ", e.Status)
					}
					if e.Type != "" {
						s += " " + e.Type
					}
					if e.Replayed {
						s += " replayed"
					}
					if e.Err != nil {
						s += " error"
					}
					if e.Method != "POST" || e.Host != "shop.test" || e.Key == "" {
						t.Errorf("%+v", e)
					}
					if e.Kind == ibidclient.EventRetry {
						took += e.Wait
					}
					if e.Kind == ibidclient.EventAnswered && e.Took != took {
						t.Errorf("took %v, waited %v", e.Took, took)
					}
					got = append(got, s)
				}}}
				if c.name == "failed" {
					opts.Attempts = 2
				}
				resp, err := client(script(c.steps...), opts).Do(post(t, t.Context(), "{}"))
				if err == nil {
					resp.Body.Close()
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
			})
		})
	}
}

// TestLogTo: a log tells what happened, and neither key nor path nor body.
func TestLogTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
		opts := &ibidclient.Options{Attempts: 2, Observe: []func(context.Context, ibidclient.Event){ibidclient.LogTo(log)}}
		ctx := ibidclient.WithKey(t.Context(), "alice@shop.test")
		fail(t, client(script(step{err: errCut}), opts), post(t, ctx, "card 4111"))
		got := out.String()
		for _, want := range []string{
			"ibidclient: retry", "ibidclient: failed", "level=WARN", "level=INFO", "host=shop.test", "attempt=2", "sends=2",
			`outcome="outcome unknown"`, "connection reset", "wait=",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the log lacks %q:\n%s", want, got)
			}
		}
		for _, secret := range []string{"alice", "4111", "/orders", "ibidclient: attempt"} {
			if strings.Contains(got, secret) {
				t.Errorf("the log shows %q:\n%s", secret, got)
			}
		}
	})
}
