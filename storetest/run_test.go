package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/storetest"
)

// recorder is a test that notes what becomes of it.
type recorder struct {
	ctx  context.Context
	name string
	said map[string]string // subtest → what it said
}

func (r *recorder) Run(name string, f func(*recorder)) bool {
	f(&recorder{ctx: r.ctx, name: name, said: r.said})
	return true
}
func (r *recorder) Parallel()                { r.said["parallel"] = "" }
func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Errorf(format string, args ...any) {
	r.said[r.name] = "red: " + fmt.Sprintf(format, args...)
}

func (r *recorder) Skipf(format string, args ...any) {
	r.said[r.name] = "skipped: " + fmt.Sprintf(format, args...)
}

// bare hides every ability of a store.
type bare struct{ ibid.Store }

// What a target lacks is said for each case, and hides no failure of another.
func TestRunSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lacking := target(bug{do: func(m *model) { m.torn = nil }}, false)
		open := lacking.Open
		lacking.Open = func(ctx context.Context) (ibid.Store, func() error, error) {
			s, closeStore, err := open(ctx)
			return bare{s}, closeStore, err
		}
		lacking.FakeClock, lacking.Second, lacking.Corrupt = false, nil, nil
		r := &recorder{ctx: t.Context(), said: map[string]string{}}
		storetest.Run(r, lacking)
		needs := map[string]int{}
		for name, said := range r.said {
			if !strings.HasPrefix(said, "skipped: needs ") {
				t.Errorf("%s: %s", name, said)
			}
			needs[said]++
		}
		for _, want := range []string{
			"a fake clock", "Target.Second", "Target.Corrupt", "a store that is a Notifier", "a store that is a Sweeper",
			"a store that is an Inspector", "a store that is a Checkpointer", "a store that is a Describer",
		} {
			if needs["skipped: needs "+want] == 0 {
				t.Errorf("no case says that it needs %s", want)
			}
		}
	})
}

// A red case is red in Run, with its why.
func TestRunFails(t *testing.T) {
	t.Parallel()
	r := &recorder{ctx: t.Context(), said: map[string]string{}}
	broken := target(bug{do: func(m *model) { m.describe = func() ibid.Description { return ibid.Description{} } }}, false)
	broken.Parallel = true
	storetest.RunIn(r, broken, func(_ *recorder, f func(*recorder)) {
		synctest.Test(t, func(t *testing.T) { f(&recorder{ctx: t.Context()}) })
	})
	said := r.said["Describe names the store"]
	if !strings.HasPrefix(said, "red: ") || !strings.Contains(said, "why: ") {
		t.Errorf("Run says %q of a store without a name", said)
	}
	if _, ok := r.said["parallel"]; !ok {
		t.Error("Run ran no case in parallel")
	}
}

// Check reports on every case, and keeps failures apart from needs.
func TestCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := target(bug{do: func(m *model) { m.describe = func() ibid.Description { return ibid.Description{} } }}, false)
		broken.Second = nil
		red, lacking := 0, 0
		reports := storetest.Check(t.Context(), broken)
		for _, r := range reports {
			if r.Err != nil {
				red++
				if errors.As(r.Err, new(storetest.Needs)) {
					t.Errorf("%s: a need is reported as a failure: %v", r.Name, r.Err)
				}
			}
			if r.Needs != "" {
				lacking++
			}
		}
		if len(reports) != len(storetest.Cases()) || red != 2 || lacking != 2 {
			t.Errorf("%d reports, %d red, %d lacking: want %d, 2, 2", len(reports), red, lacking, len(storetest.Cases()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if reports := storetest.Check(ctx, broken); len(reports) != 0 {
			t.Errorf("on a context that is over, %d cases were reported on", len(reports))
		}
	})
}

// A store that cannot be opened is not one that passes.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	closed := storetest.Target{Open: func(context.Context) (ibid.Store, func() error, error) { return nil, nil, down }}
	for _, c := range storetest.Cases() {
		if err := c.Check(t.Context(), closed); !errors.Is(err, down) {
			t.Fatalf("%s: %v, want %v", c.Name, err, down)
		}
	}
}
