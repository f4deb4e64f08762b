package ibidclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// waits returns the time between the attempts.
func (f *fake) waits() []time.Duration {
	var w []time.Duration
	saw := f.attempts()
	for i := 1; i < len(saw); i++ {
		w = append(w, saw[i].at.Sub(saw[i-1].at))
	}
	return w
}

// TestRetryAfter: what the server asks to wait is waited, and little more.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, header string
		want         time.Duration // 0 for back-off
	}{
		{"seconds", "Retry-After: 7", 7 * time.Second},
		{"a date, by the server's clock", "Date: Tue, 01 Jan 2002 00:00:00 GMT\nRetry-After: Tue, 01 Jan 2002 00:00:09 GMT", 9 * time.Second},
		{"a date, where the server sends none: by the local clock", "Retry-After: Sat, 01 Jan 2000 00:00:11 GMT", 11 * time.Second},
		{"a date in the past", "Retry-After: Sat, 01 Jan 1990 00:00:00 GMT", 0},
		{"zero", "Retry-After: 0", 0},
		{"nonsense", "Retry-After: soon", 0},
		{"negative", "Retry-After: -5", 0},
		{"nothing", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // begins at 2000-01-01 00:00:00 UTC
				base := script(step{status: 503, header: c.header}, step{status: 200})
				resp, err := client(base, nil).Do(post(t, t.Context(), ""))
				read(t, resp, err)
				low, high := c.want, c.want+c.want/10
				if c.want == 0 {
					high = ibidclient.DefaultBaseDelay
				}
				if w := base.waits(); len(w) != 1 || w[0] < low || w[0] > high {
					t.Errorf("waited %v, want between %v and %v", w, low, high)
				}
			})
		})
	}
}

// TestBackOff: full jitter, doubled per retry, capped.
func TestBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const runs = 200
		opts := &ibidclient.Options{Attempts: 10, TotalTime: -1, Budget: ibidclient.Budget{Reserve: -1}}
		caps := []time.Duration{200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000}
		sums := make([]time.Duration, len(caps))
		for range runs {
			base := script(step{err: errCut})
			if e := fail(t, client(base, opts), post(t, t.Context(), "")); !errors.Is(e, ibidclient.ErrExhausted) {
				t.Fatal(e)
			}
			w := base.waits()
			if len(w) != len(caps) {
				t.Fatalf("%d waits, want %d", len(w), len(caps))
			}
			for i, d := range w {
				if d < 0 || d > caps[i]*time.Millisecond {
					t.Fatalf("wait %d is %v, more than %v", i, d, caps[i]*time.Millisecond)
				}
				sums[i] += d
			}
		}
		for i, sum := range sums { // the mean of full jitter is half the cap
			mean, half := sum/runs, caps[i]*time.Millisecond/2
			if mean < half*7/10 || mean > half*13/10 {
				t.Errorf("wait %d is %v in the mean, want about %v", i, mean, half)
			}
		}
	})
}

// TestBounds: every bound ends the attempts by itself.
func TestBounds(t *testing.T) {
	t.Parallel()
	down := step{err: errCut, unsent: true}
	slow := step{status: 503, took: 20 * time.Second}
	hang := step{status: 200, took: time.Hour}
	for _, c := range []struct {
		name     string
		step     step
		opts     ibidclient.Options
		timeout  time.Duration // of the caller's context
		attempts [2]int        // at least and at most
		is       error
		most     time.Duration // that the call may take
	}{
		{"five attempts by default", down, ibidclient.Options{}, 0, [2]int{5, 5}, ibidclient.ErrExhausted, 4 * time.Second},
		{"attempts as given", down, ibidclient.Options{Attempts: 2}, 0, [2]int{2, 2}, ibidclient.ErrExhausted, time.Second},
		{"one attempt is no retry", down, ibidclient.Options{Attempts: 1}, 0, [2]int{1, 1}, ibidclient.ErrExhausted, 0},
		{"no bound on attempts: time bounds them", down, ibidclient.Options{Attempts: -1, Budget: ibidclient.Budget{Reserve: -1}}, 0, [2]int{12, 100}, ibidclient.ErrExhausted, 2 * time.Minute},
		{"total time, with attempts that take long", slow, ibidclient.Options{Attempts: 100, TotalTime: time.Minute}, 0, [2]int{2, 3}, ibidclient.ErrExhausted, time.Minute},
		{"an attempt that hangs is cut off, and made again", hang, ibidclient.Options{}, 0, [2]int{4, 5}, ibidclient.ErrAttemptTimeout, 2 * time.Minute},
		{"total time cuts off the attempt it ends in", hang, ibidclient.Options{AttemptTimeout: -1, TotalTime: 50 * time.Second}, 0, [2]int{1, 1}, ibidclient.ErrAttemptTimeout, 50 * time.Second},
		{"the context's deadline, during an attempt", hang, ibidclient.Options{}, 10 * time.Second, [2]int{1, 1}, context.DeadlineExceeded, 10 * time.Second},
		{"the context's deadline: no wait that could not end in time", step{status: 503, header: "Retry-After: 60"}, ibidclient.Options{}, 10 * time.Second, [2]int{1, 1}, context.DeadlineExceeded, 0},
		{"a server that asks for more than the total time is not waited for", step{status: 503, header: "Retry-After: 3600"}, ibidclient.Options{}, 0, [2]int{1, 1}, ibidclient.ErrExhausted, 0},
		{"an absurd Retry-After", step{status: 503, header: "Retry-After: 9223372036854775807"}, ibidclient.Options{Window: -1}, 0, [2]int{1, 1}, ibidclient.ErrExhausted, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				base := script(c.step)
				start := time.Now()
				resp, err := client(base, &c.opts).Do(post(t, ctx, "{}"))
				took := time.Since(start)
				e := failure(t, resp, err)
				n := len(base.attempts())
				if n < c.attempts[0] || n > c.attempts[1] || took > c.most || !errors.Is(e, c.is) {
					t.Errorf("%d attempts in %v, %v; want %v in at most %v, %v", n, took, e, c.attempts, c.most, c.is)
				}
				if e.Status == 503 && (resp == nil || resp.StatusCode != 503) {
					t.Errorf("the last response is not returned")
				}
			})
		})
	}
}

// TestCancelled: cancelling during a wait ends it, and leaves the outcome open.
func TestCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		base := script(step{status: 503, header: "Retry-After: 60"})
		time.AfterFunc(10*time.Second, cancel)
		start := time.Now()
		resp, err := client(base, nil).Do(post(t, ctx, "{}"))
		e := failure(t, resp, err)
		if time.Since(start) != 10*time.Second || !errors.Is(e, context.Canceled) || e.Outcome != ibidclient.Unknown || e.Status != 503 {
			t.Errorf("after %v: %v", time.Since(start), e)
		}
	})
}

// TestTimeoutIsATimeout: http.Client's own error says so, too.
func TestTimeoutIsATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := client(script(step{status: 200, took: time.Hour}), nil)
		for _, c.Timeout = range []time.Duration{0, time.Second} {
			resp, err := c.Do(post(t, t.Context(), ""))
			if err == nil {
				resp.Body.Close()
			}
			if u, ok := errors.AsType[*url.Error](err); !ok || !u.Timeout() {
				t.Errorf("%v is no timeout", err)
			}
		}
	})
}

// TestBudget: in an outage the attempts are not multiplied, and after it they
// are made again.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const operations = 5000
		base := script(step{err: errCut})
		c := client(base, &ibidclient.Options{Budget: ibidclient.Budget{PerSecond: -1}})
		var empty int
		for range operations {
			if errors.Is(fail(t, c, post(t, t.Context(), "")), ibidclient.ErrBudget) {
				empty++
			}
		}
		// 100 in reserve, and one retry for five operations.
		if n := len(base.attempts()); n > operations+operations/5+100 || n < operations+operations/5 {
			t.Errorf("%d attempts of %d operations", n, operations)
		}
		if empty < operations/2 {
			t.Errorf("only %d operations say that the budget is empty", empty)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		base := script(step{err: errCut})
		c := client(base, &ibidclient.Options{Budget: ibidclient.Budget{Ratio: -1, Reserve: 4, PerSecond: 0.5}})
		attempts := func() int {
			before := len(base.attempts())
			fail(t, c, post(t, t.Context(), ""))
			return len(base.attempts()) - before
		}
		if a, b := attempts(), attempts(); a != 5 || b > 3 {
			t.Errorf("%d and %d attempts, want 5 and few", a, b)
		}
		time.Sleep(time.Hour)
		if n := attempts(); n != 5 {
			t.Errorf("%d attempts after an hour, want 5: the reserve is full again", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		base := script(step{err: errCut})
		c := client(base, &ibidclient.Options{Budget: ibidclient.Budget{Reserve: -1}})
		for range 100 {
			fail(t, c, post(t, t.Context(), ""))
		}
		if n := len(base.attempts()); n != 500 {
			t.Errorf("%d attempts without a budget, want 500", n)
		}
	})
}

// TestSafeMethods: they are retried without a key; other requests without a
// key are passed on once.
func TestSafeMethods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method   string
		attempts int
	}{{"GET", 2}, {"HEAD", 2}, {"OPTIONS", 2}, {"", 2}, {"PUT", 1}, {"DELETE", 1}, {"QUERY", 1}} {
		synctest.Test(t, func(t *testing.T) {
			base := script(step{status: 503}, step{status: 200})
			req := post(t, t.Context(), "")
			req.Method = c.method
			resp, err := client(base, nil).Do(req)
			read(t, resp, err)
			if n := len(base.attempts()); n != c.attempts {
				t.Errorf("%s: %d attempts, want %d", c.method, n, c.attempts)
			}
			if k := fmt.Sprint(base.keys()); k != fmt.Sprint(make([]string, c.attempts)) {
				t.Errorf("%s: keys %s, want none", c.method, k)
			}
		})
	}
}

// TestInvalidOptions: every request is refused, and nothing is sent.
func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	base := script(step{status: 200})
	resp, err := client(base, &ibidclient.Options{Header: "Idempotency Key"}).Do(post(t, t.Context(), ""))
	if e := failure(t, resp, err); e.Outcome != ibidclient.Refused || len(base.attempts()) != 0 {
		t.Error(e)
	}
}

var _ http.RoundTripper = (*ibidclient.Transport)(nil)
