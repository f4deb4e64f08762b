package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// verdict is how one mutant ended.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	broken   verdict = "ERROR" // nothing was proven: it does not apply or compile, or its test is no test
)

// result is a verdict with what a reader needs to act on it.
type result struct {
	mutant  mutant
	verdict verdict
	detail  string // the first test that failed, or what went wrong
	took    time.Duration
}

// bench is one copy of the repository, used by one worker at a time.
type bench struct {
	root    string
	timeout time.Duration
}

// run sees the test pass on the intact copy, unless passed says that it did,
// applies the mutant, sees the test fail, and restores the file.
func (b bench) run(ctx context.Context, m mutant, passed bool) result {
	start := time.Now()
	end := func(v verdict, detail string) result {
		return result{mutant: m, verdict: v, detail: detail, took: time.Since(start)}
	}
	path := filepath.Join(b.root, filepath.FromSlash(m.file))
	intact, err := os.ReadFile(path)
	if err != nil {
		return end(broken, err.Error())
	}
	mutated, err := m.apply(string(intact))
	if err != nil {
		return end(broken, err.Error())
	}
	if !passed {
		if o := b.test(ctx, m); !o.passed() {
			return end(broken, "on the intact code: "+o.problem())
		}
	}
	if err := os.WriteFile(path, []byte(mutated), 0o644); err != nil {
		return end(broken, err.Error())
	}
	o := b.test(ctx, m)
	if err := os.WriteFile(path, intact, 0o644); err != nil {
		return end(broken, err.Error())
	}
	switch {
	case o.passed():
		return end(survived, strings.Join(m.test, " "))
	case ctx.Err() != nil:
		return end(broken, ctx.Err().Error())
	case o.failed():
		return end(caught, o.first())
	}
	return end(broken, o.problem())
}

// outcome is what one go test told.
type outcome struct {
	ran      int      // tests that were started
	failures []string // the tests, or else the packages, that failed
	unbuilt  bool     // a package did not compile or load
	err      error    // of the go command; nil when everything passed
	output   []byte
}

func (o outcome) passed() bool { return o.err == nil && o.ran > 0 }
func (o outcome) failed() bool { return o.err != nil && !o.unbuilt && o.ran > 0 && len(o.failures) > 0 }

// first returns the failure that was reported first, and how many there are: a
// failing sub-test is reported before the test around it.
func (o outcome) first() string {
	if len(o.failures) == 1 {
		return o.failures[0]
	}
	return fmt.Sprintf("%s, the first of %d", o.failures[0], len(o.failures))
}

// problem says why an outcome is neither what it should be, in a few lines.
func (o outcome) problem() string {
	what := "no test was run"
	switch {
	case o.unbuilt:
		what = "it does not compile"
	case len(o.failures) > 0:
		what = "failed: " + o.first()
	case o.err != nil:
		what = o.err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(o.output)), "\n")
	return what + "\n" + strings.Join(lines[:min(len(lines), 12)], "\n")
}

// test runs the mutant's test. Vet is off: what vet reports, no test has caught.
func (b bench) test(ctx context.Context, m mutant) outcome {
	args := append([]string{"test", "-json", "-count=1", "-vet=off", "-timeout", b.timeout.String()}, m.test...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = filepath.Join(b.root, filepath.FromSlash(m.dir))
	command.Env = environment()
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	var events, problems bytes.Buffer
	command.Stdout, command.Stderr = &events, &problems
	err := command.Run()
	o := readEvents(&events)
	o.err = err
	o.output = append(problems.Bytes(), o.output...)
	return o
}

// environment is this process's, except that the copy's own workspace counts.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GOWORK=") {
			env = append(env, e)
		}
	}
	return env
}

// readEvents reads what go test -json printed.
func readEvents(events *bytes.Buffer) outcome {
	var o outcome
	var packages []string
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var event struct{ Action, Package, Test, Output, FailedBuild string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			o.output = append(append(o.output, lines.Bytes()...), '\n')
			continue
		}
		switch event.Action {
		case "run":
			o.ran++
		case "output", "build-output":
			o.output = append(o.output, event.Output...)
		case "build-fail":
			o.unbuilt = true
		case "fail":
			switch {
			case event.FailedBuild != "":
				o.unbuilt = true
			case event.Test != "":
				o.failures = append(o.failures, event.Test)
			default:
				packages = append(packages, event.Package)
			}
		}
		if strings.Contains(event.Output, "[setup failed]") || strings.Contains(event.Output, "[build failed]") {
			o.unbuilt = true
		}
	}
	if len(o.failures) == 0 {
		o.failures = packages
	}
	if err := lines.Err(); err != nil {
		o.output = fmt.Appendf(o.output, "%v\n", err)
	}
	return o
}
