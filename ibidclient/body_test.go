package ibidclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ibid-go/ibid/ibidclient"
)

// stream is a body without GetBody.
type stream struct {
	io.Reader
	closed int
}

func (s *stream) Close() error { s.closed++; return nil }

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

// TestBodies: every attempt sends the same bytes, or there is no second one.
func TestBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name     string
		body     io.Reader // bytes.Reader and strings.Reader have a GetBody
		length   int64     // 0 leaves it as it is
		limit    int64
		attempts int
		sent     string
	}{
		{"rewound by GetBody", strings.NewReader(long), 0, 10, 2, long},
		{"no body", nil, 0, 0, 2, ""},
		{"held in memory", &stream{Reader: strings.NewReader(long)}, 0, 1000, 2, long},
		{"held in memory, length known", &stream{Reader: strings.NewReader(long)}, 1000, 1000, 2, long},
		{"one byte too long to be held", &stream{Reader: strings.NewReader(long)}, 0, 999, 1, long},
		{"too long to be held, length known", &stream{Reader: strings.NewReader(long)}, 1000, 999, 1, long},
		{"never held", &stream{Reader: strings.NewReader(long)}, 0, -1, 1, long},
		{"an empty stream", &stream{Reader: strings.NewReader("")}, 0, 0, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), "POST", "http://shop.test/", c.body)
				if err != nil {
					t.Fatal(err)
				}
				if c.length > 0 {
					req.ContentLength = c.length
				}
				var once bool
				opts := &ibidclient.Options{MaxBody: c.limit, Observe: []func(context.Context, ibidclient.Event){func(_ context.Context, e ibidclient.Event) {
					once = once || e.Kind == ibidclient.EventSentOnce
				}}}
				base := script(step{err: errCut}, step{status: 200})
				resp, err := client(base, opts).Do(req)
				saw := base.attempts()
				if len(saw) != c.attempts {
					t.Fatalf("%d attempts, want %d", len(saw), c.attempts)
				}
				for _, s := range saw {
					if s.body != c.sent || s.rewindable {
						t.Errorf("sent %d bytes, want %d; rewindable by the base transport: %v", len(s.body), len(c.sent), s.rewindable)
					}
				}
				if once != (c.attempts == 1) {
					t.Errorf("said that it is sent once: %v", once)
				}
				if c.attempts == 2 {
					read(t, resp, err)
				} else if e := failure(t, resp, err); !errors.Is(e, ibidclient.ErrSentOnce) || e.Outcome != ibidclient.Unknown || e.Key == "" {
					t.Error(e)
				}
				if s, ok := c.body.(*stream); ok && s.closed == 0 {
					t.Error("the body was not closed")
				}
			})
		})
	}
}

// TestBodyThatCannotBeRead: nothing was sent, and the body is closed.
func TestBodyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		body   *stream
		length int64
	}{
		{"reading fails", &stream{Reader: brokenReader{}}, 0},
		{"shorter than announced", &stream{Reader: strings.NewReader("abc")}, 4},
	} {
		req, err := http.NewRequest("POST", "http://shop.test/", c.body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = c.length
		base := script(step{status: 200})
		resp, err := client(base, nil).Do(req)
		if e := failure(t, resp, err); e.Outcome != ibidclient.Refused || len(base.attempts()) != 0 || c.body.closed == 0 {
			t.Errorf("%s: %v, %d attempts, closed %d times", c.name, e, len(base.attempts()), c.body.closed)
		}
	}
}

// TestBodyClosedWhenRefused: RoundTrip closes the body, also when it refuses.
func TestBodyClosedWhenRefused(t *testing.T) {
	t.Parallel()
	body := &stream{Reader: strings.NewReader("x")}
	req, err := http.NewRequest("POST", "http://shop.test/", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", " ")
	if resp, err := client(script(step{status: 200}), nil).Do(req); failure(t, resp, err).Outcome != ibidclient.Refused || body.closed == 0 {
		t.Error("not refused, or not closed")
	}
}

// cutBody breaks off after its bytes.
type cutBody struct{ io.Reader }

func (c *cutBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = errCut
	}
	return n, err
}
func (*cutBody) Close() error { return nil }

// cutting is a base transport whose first answers break off in their body.
type cutting struct {
	*fake
	cuts   int
	length int64
}

func (c *cutting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.fake.RoundTrip(req)
	if err == nil && len(c.attempts()) <= c.cuts {
		resp.Body = &cutBody{strings.NewReader("do")}
	}
	if err == nil && c.length != 0 {
		resp.ContentLength = c.length
	}
	return resp, err
}

// TestAnswerBreaksOff: a short answer is had whole or fetched again; a long one,
// or one of unknown length, ends in an error that says that the operation was completed.
func TestAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := &cutting{fake: script(step{status: 201, body: "done"}), cuts: 2}
		resp, err := client(base, nil).Do(post(t, t.Context(), "{}"))
		if got := read(t, resp, err); got != "done" || ibidclient.AttemptsOf(resp) != 3 {
			t.Errorf("%q after %d attempts", got, ibidclient.AttemptsOf(resp))
		}
	})
	for _, c := range []struct {
		name string
		opts *ibidclient.Options
		cut  *cutting
	}{
		{"longer than is read ahead", &ibidclient.Options{MaxAnswer: 3}, &cutting{fake: script(step{status: 201, body: "done"}), cuts: 1}},
		{"of unknown length", nil, &cutting{fake: script(step{status: 201, body: "done"}), cuts: 1, length: -1}},
		{"never read ahead", &ibidclient.Options{MaxAnswer: -1}, &cutting{fake: script(step{status: 201, body: "done"}), cuts: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			resp, err := client(c.cut, c.opts).Do(post(t, t.Context(), "{}"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			var e *ibidclient.Error
			if !errors.As(err, &e) || e.Outcome != ibidclient.Completed || e.Key != ibidclient.KeyOf(resp) || !errors.Is(err, errCut) || string(got) != "do" {
				t.Errorf("%s: read %q, %v", c.name, got, err)
			}
			resp.Body.Close()
		})
	}
}

// TestLongAnswer: what is not read ahead arrives as it is, however long it takes.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 300<<10/10)
	base := script(step{status: 200, body: long})
	resp, err := client(base, &ibidclient.Options{MaxAnswer: 1000}).Do(post(t, t.Context(), ""))
	if got := read(t, resp, err); got != long {
		t.Errorf("%d bytes of %d", len(got), len(long))
	}
	problem := step{status: 422, header: "Content-Type: application/json", body: `{"a":"` + long + `"}`}
	resp, err = client(script(problem), &ibidclient.Options{MaxAnswer: 1000}).Do(post(t, t.Context(), ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(resp.Body); err != nil || got.String() != problem.body {
		t.Errorf("a long error answer has %d bytes, want %d: %v", got.Len(), len(problem.body), err)
	}
}
