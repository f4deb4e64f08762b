package outside_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ibid-go/ibid/internal/outside"
)

// ending records how Need ended a test.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper()               {}
func (e *ending) Name() string          { return "TestWithServer" }
func (e *ending) Skip(...any)           { e.end("skipped") }
func (e *ending) Fatal(...any)          { e.end("failed") }
func (e *ending) Fatalf(string, ...any) { e.end("failed") }
func (e *ending) end(how string)        { e.how = how; runtime.Goexit() }
func (e *ending) of(err error) (h string) {
	done := make(chan struct{})
	e.how = "went on"
	go func() {
		defer close(done)
		outside.Need(e, err)
	}()
	<-done
	return e.how
}

func TestNeed(t *testing.T) { // not parallel: it sets the environment
	missing := fmt.Errorf("start: %w", outside.Missing{What: "redis-server", Package: "redis-server"})
	for _, tt := range []struct {
		why     string
		err     error
		require string
		want    string
		noted   string
	}{
		{"a server that is there", nil, "all", "went on", ""},
		{
			"a missing one is skipped on a developer's machine, and noted", missing, "", "skipped",
			"TestWithServer: start: redis-server is missing: apt-get install redis-server\n",
		},
		{"a skip in CI would pass for a success", missing, "all", "failed", ""},
		{"a server that does not start is no missing one", errors.New("exit status 1"), "", "failed", ""},
	} {
		t.Run(tt.why, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "skips")
			t.Setenv("IBID_TEST_REQUIRE", tt.require)
			t.Setenv("IBID_TEST_SKIPS", file)
			if got := new(ending).of(tt.err); got != tt.want {
				t.Errorf("the test %s, not %s", got, tt.want)
			}
			if noted, _ := os.ReadFile(file); string(noted) != tt.noted {
				t.Errorf("noted %q", noted)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	t.Setenv("IBID_TEST_REDIS", "127.0.0.1:6379")
	t.Setenv("IBID_TEST_POSTGRES", "")
	if got := outside.Address("REDIS"); got != "127.0.0.1:6379" {
		t.Errorf("REDIS is at %q", got)
	}
	if got := outside.Address("POSTGRES"); got != "" {
		t.Errorf("POSTGRES is at %q", got)
	}
}
