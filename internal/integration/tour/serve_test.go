package tour_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	stop = syscall.SIGSTOP
	cont = syscall.SIGCONT
)

// service is a process of the payments service, which ends with the test.
type service struct{ url string }

func serve(t *testing.T, args ...string) *service {
	t.Helper()
	cmd := exec.Command(program, append([]string{"demo", "--serve", "127.0.0.1:0", "--attached"}, args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir()), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		late.Stop()
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatal("the service did not start")
	}
	url, ok := strings.CutPrefix(lines.Text(), "listening on ")
	if !ok {
		t.Fatalf("the service said %q", lines.Text())
	}
	go io.Copy(io.Discard, stdout) // ends with the process
	return &service{url}
}

// pay pays once under key, and returns the status and the marker of a replay.
func (s *service) pay(t *testing.T, key string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+"/payments", struct{ io.Reader }{
		strings.NewReader(fmt.Sprintf(`{"order_id":"o-%s","amount":3000,"currency":"TWD"}`, key)),
	})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-User-ID", "alice")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, resp.Header.Get("Idempotent-Replayed"))
}

// charges returns how many charges the ledger holds.
func (s *service) charges(t *testing.T) int {
	t.Helper()
	resp, err := http.Get(s.url + "/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var l struct{ Charges []struct{} }
	if err := json.NewDecoder(resp.Body).Decode(&l); err != nil {
		t.Fatal(err)
	}
	return len(l.Charges)
}
