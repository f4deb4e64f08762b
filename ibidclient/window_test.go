package ibidclient_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// TestWindow: no attempt is begun when the server may have forgotten the key
// (hazard 37).
func TestWindow(t *testing.T) {
	t.Parallel()
	endless := ibidclient.Options{Attempts: -1, TotalTime: -1, Budget: ibidclient.Budget{Reserve: -1}}
	for _, c := range []struct {
		name   string
		window time.Duration // Options.Window
		step   step
		last   time.Duration // after which no attempt may begin
	}{
		{"the window that is configured", time.Minute, step{status: 503}, 57 * time.Second},
		{"the default, 24 hours", 0, step{status: 503, header: "Retry-After: 3600"}, 24*time.Hour - 30*time.Second},
		{"what the server says goes before what is configured", time.Hour, step{status: 503, header: "Idempotency-Expires: 20"}, 19 * time.Second},
		{"also when the server's window is longer", 10 * time.Second, step{status: 503, header: "Idempotency-Expires: 120"}, 114 * time.Second},
		{"answers that are lost, one by one", 2 * time.Minute, step{err: errCut, took: 7 * time.Second}, 114 * time.Second},
		{"an attempt in progress is cut off there, too", time.Minute, step{status: 201, took: time.Hour}, 57 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				opts := endless
				opts.Window = c.window
				// The server says it once: it is then counted from that attempt on.
				base := script(c.step, step{status: 503, header: "Retry-After: 1"})
				if c.step.header == "" || c.step.err != nil || c.step.took > 0 || c.window == 0 {
					base = script(c.step)
				}
				start := time.Now()
				resp, err := client(base, &opts).Do(post(t, t.Context(), "{}"))
				e := failure(t, resp, err)
				if !errors.Is(e, ibidclient.ErrWindowOver) || e.Outcome != ibidclient.Unknown || resp != nil || e.Key == "" {
					t.Errorf("response %v, error %v", resp, e)
				}
				saw := base.attempts()
				if last := saw[len(saw)-1].at.Sub(start); last >= c.last || len(saw) < 2 {
					t.Errorf("%d attempts, the last after %v, want none from %v on", len(saw), last, c.last)
				}
				if took := time.Since(start); took > c.last {
					t.Errorf("gave up after %v, want at most %v", took, c.last)
				}
			})
		})
	}
}

// TestWindowOverSeveralRequests: the window of a key begins with its first
// request, also where the caller repeats the request itself.
func TestWindowOverSeveralRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := script(step{err: errCut})
		c := client(base, &ibidclient.Options{Window: time.Hour, Attempts: 1})
		ctx := ibidclient.WithKey(t.Context(), "order-1")
		if e := fail(t, c, post(t, ctx, "{}")); !errors.Is(e, ibidclient.ErrExhausted) || e.Window <= 50*time.Minute || e.Window > time.Hour {
			t.Errorf("window left %v: %v", e.Window, e)
		}
		time.Sleep(30 * time.Minute)
		if e := fail(t, c, post(t, ctx, "{}")); e.Window <= 20*time.Minute || e.Window > 30*time.Minute {
			t.Errorf("window left %v: %v", e.Window, e)
		}
		time.Sleep(30 * time.Minute)
		if e := fail(t, c, post(t, ctx, "{}")); !errors.Is(e, ibidclient.ErrWindowOver) || len(base.attempts()) != 2 {
			t.Errorf("%v after %d attempts, want no third", e, len(base.attempts()))
		}
	})
}

// TestNoWindow: a negative window has no end.
func TestNoWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := script(step{status: 503, header: "Retry-After: 86400"}, step{status: 503, header: "Retry-After: 86400"}, step{status: 200})
		resp, err := client(base, &ibidclient.Options{Window: -1, TotalTime: -1}).Do(post(t, t.Context(), ""))
		read(t, resp, err)
	})
}
