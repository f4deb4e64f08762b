package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Scripts have three commands besides those of testscript:
//
//	serve ARGS…                       start a service with ARGS, once the last one has ended
//	end                               end the service in good order
//	post PATH KEY BODY [HEADER…]      ask it, and write what it answers to the file "answer"
//	plain FILE                        replace in FILE what differs from run to run
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Values["service"] = &service{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve": serve, "end": end, "post": post, "plain": plain,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "long" {
				return !testing.Short(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// service is the process that a script has started.
type service struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value("service").(*service)
	if s.cmd != nil {
		s.cmd.Wait() // it ended by itself, in a way the script asked for
	}
	s.cmd = exec.Command(program, append([]string{"demo", "--serve", "127.0.0.1:0", "--attached"}, args...)...)
	s.cmd.Dir = ts.Getenv("WORK")
	stdin, err := s.cmd.StdinPipe()
	ts.Check(err)
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Defer(func() { end(ts, false, nil) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	ts.Check(err)
	s.url = strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
}

func end(ts *testscript.TestScript, _ bool, _ []string) {
	s := ts.Value("service").(*service)
	if s.cmd != nil {
		s.stdin.Close()
		s.cmd.Wait()
		s.cmd = nil
	}
}

func post(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: post PATH KEY BODY [HEADER…]")
	}
	url := ts.Value("service").(*service).url
	req, err := http.NewRequest(http.MethodPost, url+args[0], struct{ io.Reader }{strings.NewReader(args[2])})
	ts.Check(err)
	req.Header.Set("X-User-ID", "alice")
	req.Header.Set("Idempotency-Key", args[1])
	for _, line := range args[3:] {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Set(name, strings.TrimSpace(value))
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if neg {
		if err == nil {
			ts.Fatalf("post: there was an answer: %s", resp.Status)
		}
		return
	}
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	text := resp.Status + "\n"
	for _, name := range []string{"Location", "Idempotent-Replayed"} {
		if v := resp.Header.Get(name); v != "" {
			text += name + ": " + v + "\n"
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("answer"), []byte(text+"\n"+string(body)+"\n"), 0o600))
}

// What differs from run to run.
var varying = []struct {
	is   *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`pay_[A-Z0-9]{12}`), "pay_ID"},
	{regexp.MustCompile(`\b((?:o|k|mismatch)(?:-[a-z]+)*)-[a-z2-7]{5}\b`), "$1-RUN"},
	{regexp.MustCompile(`\d+\.\d s\b`), "N s"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "DIGEST"},
	{regexp.MustCompile(`(?m)( [45]\d\d [a-z-]+): .*$`), "$1: …"}, // how ibidhttp puts it
	{regexp.MustCompile(`holds for [0-9.msh]+`), "holds for TIME"},
}

func plain(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := ts.ReadFile(name)
		for _, v := range varying {
			text = v.is.ReplaceAllString(text, v.text)
		}
		out := ts.MkAbs(name)
		if name == "stdout" || name == "stderr" {
			out = ts.MkAbs(name + ".plain")
		}
		ts.Check(os.WriteFile(out, []byte(text), 0o600))
	}
}
