// Package tour_test plays the tour of the program over every store, each with a
// private server, and puts the program's other commands before them.
package tour_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid/internal/integration/servers"
)

// program is the program under test, built once.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ibid-program-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "ibid")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "..", "cmd", "ibid")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build cmd/ibid: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// The URLs of private servers, which end with the test.

func redis(t *testing.T, settings ...string) *servers.Redis {
	t.Helper()
	r, err := servers.StartRedis(settings...)
	servers.Need(t, err)
	t.Cleanup(r.Stop)
	return r
}

func persisted(t *testing.T) string {
	return redis(t, "--appendonly", "yes", "--appendfsync", "always").URL
}

func postgres(t *testing.T) string {
	t.Helper()
	p, err := servers.StartPostgres()
	servers.Need(t, err)
	t.Cleanup(p.Stop)
	return p.URL
}

func mariadb(t *testing.T) string {
	t.Helper()
	m, err := servers.StartMariaDB()
	servers.Need(t, err)
	t.Cleanup(m.Stop)
	return fmt.Sprintf("mysql://root@127.0.0.1:%d/test", m.Port)
}

var stores = []struct {
	name string
	url  func(t *testing.T) string
}{
	{"redis", persisted},
	{"postgres", postgres},
	{"mariadb", mariadb},
	{"redis in front of postgres", func(t *testing.T) string { return redis(t).URL + "+" + postgres(t) }},
	{"redis in front of sqlite", func(t *testing.T) string {
		return redis(t).URL + "+sqlite:" + filepath.Join(t.TempDir(), "keys.db")
	}},
	{"memory", func(*testing.T) string { return "memory:" }},
}

// Every promise is kept over every store. With -short, only the scenes that are
// about the store. It does not run beside other tests: its scenes take both
// processors.
func TestTour(t *testing.T) {
	for _, row := range stores {
		t.Run(row.name, func(t *testing.T) {
			args := []string{"demo", "--json", "--store", row.url(t)}
			if testing.Short() {
				for _, scene := range []string{"three-sends", "two-processes", "outage", "crash-refuse"} {
					args = append(args, "--scene", scene)
				}
			}
			out, err := ibid(t, args...)
			var last struct {
				Total *struct{ Scenes, Kept, Skipped int }
			}
			for line := range strings.Lines(out) {
				var s struct{ Scene, Verdict, Expected, Seen, Reason string }
				if json.Unmarshal([]byte(line), &s) == nil && s.Verdict != "" && s.Verdict != "kept" {
					if s.Verdict == "skipped" {
						t.Logf("%s is skipped: %s", s.Scene, s.Reason)
						continue
					}
					t.Errorf("%s is %s: %s: expected %s, saw %s", s.Scene, s.Verdict, s.Reason, s.Expected, s.Seen)
				}
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
			}
			if err != nil || last.Total == nil || last.Total.Kept+last.Total.Skipped != last.Total.Scenes || last.Total.Kept == 0 {
				t.Fatalf("the tour: %v, %+v", err, last.Total)
			}
			if last.Total.Skipped > 0 && row.name != "memory" && redisInstalled() {
				t.Errorf("%d scenes were skipped", last.Total.Skipped)
			}
		})
	}
}

func redisInstalled() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

// ibid runs the program and returns what it printed.
func ibid(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return string(out), err
}

// Those who keep their schema themselves print it, or apply it; until then the
// commands of an operator make no table.
func TestSchema(t *testing.T) {
	t.Parallel()
	for _, row := range stores[1:3] {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			url := row.url(t)
			named := url + map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")] + "table=app_keys"
			if out, err := ibid(t, "keys", "list", "--store", named); err == nil || !strings.Contains(err.Error(), "does not exist") {
				t.Errorf("keys of a table that is not there: %q, %v", out, err)
			}
			for range 2 {
				if out, err := ibid(t, "schema", "apply", named); err != nil || !strings.Contains(out, "is there") {
					t.Errorf("apply: %q, %v", out, err)
				}
			}
			if out, err := ibid(t, "keys", "list", "--store", named); err != nil {
				t.Errorf("keys of an empty table: %q, %v", out, err)
			}
			if out, err := ibid(t, "schema", "print", named); err != nil || !strings.Contains(out, "app_keys") {
				t.Errorf("print: %q, %v", out, err)
			}
		})
	}
}

// A front that is killed, stands still or comes back empty costs its callers a
// bounded time, and nothing runs twice.
func TestAFrontThatDies(t *testing.T) {
	t.Parallel()
	front := redis(t)
	s := serve(t, "--store", front.URL+"+"+postgres(t))
	key := 0
	check := func(when string) {
		t.Helper()
		key++
		for i, want := range []string{"201 ", "201 true", "201 true", "201 true"} {
			began := time.Now()
			if got := s.pay(t, fmt.Sprint(key)); got != want {
				t.Errorf("%s: request %d: %q, want %q", when, i, got, want)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s: request %d took %v", when, i, took)
			}
		}
		for old := 1; old < key; old++ {
			if got := s.pay(t, fmt.Sprint(old)); got != "201 true" {
				t.Errorf("%s: key %d again: %q, want a replay", when, old, got)
			}
		}
		if n := s.charges(t); n != key {
			t.Errorf("%s: %d charges of %d keys", when, n, key)
		}
	}
	check("while all is well")
	front.Kill()
	check("the front is dead")
	if err := front.Start(); err != nil {
		t.Fatal(err)
	}
	check("the front is back, and empty")
	if err := front.Signal(stop); err != nil {
		t.Fatal(err)
	}
	check("the front stands still")
	if err := front.Signal(cont); err != nil {
		t.Fatal(err)
	}
	check("the front goes on")
}
