package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	play "github.com/ibid-go/ibid/cmd/ibid/internal/tour"
)

// scene is a line of ibid demo --json.
type scene struct {
	Scene    string `json:"scene"`
	Verdict  string `json:"verdict"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	Reason   string `json:"reason"`
	Steps    []struct {
		Charges *int `json:"charges"`
	} `json:"steps"`
	Total *struct {
		Scenes, Kept, Skipped, Charges int
		Requests                       int
		Broken                         string
	} `json:"total"`
}

// tour runs ibid demo --json with args, in a temporary folder of its own, which
// it must leave empty.
func tour(t *testing.T, args ...string) (scenes []scene, exit int, stderr string) {
	t.Helper()
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"demo", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var s scene
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		scenes = append(scenes, s)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the tour left %v behind (%v)", left, err)
	}
	return scenes, cmd.ProcessState.ExitCode(), errs.String()
}

// It does not run beside other tests: it waits for leases of two seconds.
func TestTourKeepsEveryPromise(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 30 seconds")
	}
	began := time.Now()
	scenes, exit, stderr := tour(t)
	if exit != 0 {
		t.Errorf("exit code %d: %s", exit, stderr)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the tour took %v, more than a minute", took)
	}
	// The scene that cuts a store off needs a server.
	skipped, outage := 0, 5
	if _, err := exec.LookPath("redis-server"); err != nil {
		skipped, outage = 1, 0
		t.Log("redis-server is not installed: the scene outage is skipped")
	}
	total := scenes[len(scenes)-1].Total
	if total == nil || total.Scenes != len(scenes)-1 || total.Kept != total.Scenes-skipped || total.Skipped != skipped || total.Broken != "" {
		t.Fatalf("total: %+v", total)
	}
	// 3 without ibid, 1,000 of different keys, and one each of 18 others, of
	// which two users have two under one order; 2 of a client without a journal and 1 of one
	// with it; 1 of a webhook and 30 of a queue; 2 of two processes, and 5 of the store that goes
	// away; of orders 20 that shared the cups, 6 and 6 of shops that were killed, 3 of
	// bad providers and one from a wallet. Nothing else may be in any ledger.
	if want := 3 + 1000 + 20 + 3 + 1 + 30 + 2 + outage + 20 + 6 + 6 + 3 + 1; total.Charges != want {
		t.Errorf("%d charges, want %d", total.Charges, want)
	}
	for _, s := range scenes[:len(scenes)-1] {
		if s.Scene == "outage" && skipped > 0 {
			continue
		}
		if s.Verdict != "kept" {
			t.Errorf("%s is %s: %s", s.Scene, s.Verdict, s.Reason)
		}
		counted := false
		for _, st := range s.Steps {
			counted = counted || st.Charges != nil
		}
		if !counted {
			t.Errorf("%s never asked the ledger", s.Scene)
		}
	}
}

// Each scene stands alone: it needs nothing that another has done.
func TestScene(t *testing.T) {
	t.Parallel()
	for _, s := range play.Scenes() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			scenes, exit, stderr := tour(t, "--scene", s.Name)
			if len(scenes) == 2 && scenes[0].Verdict == "skipped" && strings.Contains(scenes[0].Reason, "not installed") {
				t.Skip(scenes[0].Reason)
			}
			if exit != 0 || len(scenes) != 2 || scenes[0].Verdict != "kept" {
				t.Errorf("exit code %d: %s%s", exit, scenes[0].Reason, stderr)
			}
		})
	}
}

func TestTourFailsWhereItIsBroken(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		how, scene     string
		expected, seen string
		args           []string
	}{
		{how: "release-after-success", scene: "three-sends", expected: "1", seen: "3"},
		{how: "no-claim", scene: "stampede", expected: "1"}, // as many as were at once, and some
		{how: "request-context", scene: "hang-up", expected: "201 replayed", seen: "409 outcome-unknown"},
		{how: "fresh-charge-key", scene: "order-crash", expected: "1", seen: "2", args: []string{"--scene", "order-crash"}},
	} {
		t.Run(row.how, func(t *testing.T) {
			t.Parallel()
			scenes, exit, stderr := tour(t, append(row.args, "--break", row.how)...)
			if exit != 1 || !strings.Contains(stderr, "scene "+row.scene) {
				t.Errorf("exit code %d, stderr %q, want 1 and scene %s", exit, stderr, row.scene)
			}
			last, total := scenes[len(scenes)-2], scenes[len(scenes)-1].Total
			if last.Scene != row.scene || last.Verdict != "broken" || total.Broken != row.scene || total.Kept != len(scenes)-2 {
				t.Errorf("stopped at %s, %s, total %+v; want broken at %s", last.Scene, last.Verdict, total, row.scene)
			}
			if last.Expected != row.expected || !strings.HasPrefix(last.Seen, row.seen) {
				t.Errorf("expected %q and saw %q, want %q and %q", last.Expected, last.Seen, row.expected, row.seen)
			}
		})
	}
}

func TestTourSkipsCrashesThatTheStoreDoesNotSurvive(t *testing.T) {
	t.Parallel()
	scenes, exit, stderr := tour(t, "--store", "memory:", "--scene", "crash-refuse", "--scene", "two-users")
	if exit != 0 || len(scenes) != 3 {
		t.Fatalf("exit code %d, %d lines: %s", exit, len(scenes), stderr)
	}
	if scenes[0].Verdict != "skipped" || !strings.Contains(scenes[0].Reason, "process kill") {
		t.Errorf("crash-refuse is %s: %s", scenes[0].Verdict, scenes[0].Reason)
	}
	if scenes[1].Verdict != "kept" || scenes[2].Total.Skipped != 1 {
		t.Errorf("two-users is %s, total %+v", scenes[1].Verdict, scenes[2].Total)
	}
}

// A tour that was told to end, or killed, leaves no server behind; one that was
// told leaves no file either.
func TestTourEndsItsServers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		how   os.Signal
		files bool // may stay
	}{
		{"interrupt", os.Interrupt, false},
		{"kill", os.Kill, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			cmd := exec.Command(program, "demo", "--scene", "three-sends", "--scene", "slow")
			cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			var servers []string
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), "the lease is") {
				if _, url, ok := strings.Cut(lines.Text(), "listening on http://"); ok {
					servers = append(servers, url)
				}
			}
			if len(servers) != 2 {
				t.Fatalf("servers: %v", servers)
			}
			cmd.Process.Signal(row.how)
			for lines.Scan() {
			}
			if err := cmd.Wait(); err == nil {
				t.Error("a tour that was ended before its end succeeded")
			}
			for _, address := range servers {
				if !closed(address) {
					t.Errorf("the server at %s still listens", address)
				}
			}
			left, err := os.ReadDir(temp)
			if err != nil || len(left) > 0 && !row.files {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Whoever stops reading, as head does, ends the tour: nothing stays behind.
func TestTourEndsWhenNobodyReads(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "demo", "--scene", "no-key", "--scene", "slow")
	cmd.Env, cmd.Stdout = append(os.Environ(), "TMPDIR="+temp), write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		t.Error(err)
	}
	read.Close()
	if err := cmd.Wait(); err == nil {
		t.Error("a tour that nobody has seen succeeded")
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// closed waits until nothing listens at address.
func closed(address string) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return true
		}
		conn.Close()
		time.Sleep(50 * time.Millisecond)
	}
	return false
}
