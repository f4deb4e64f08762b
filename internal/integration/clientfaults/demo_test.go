package clientfaults_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// programDir is where the program under test is built; TestMain removes it.
var programDir string

// program builds cmd/ibid once, with the Go command that runs the test.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDir, "ibid")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir = filepath.Join("..", "..", "..", "cmd", "ibid")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/ibid: %w\n%s", err, out)
	}
	return path, nil
})

// demo is one process of the payments service.
type demo struct{ address string } // host:port

// startDemo runs the real service with its own SQLite file. It ends when its
// standard input does: also when the test is killed.
func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"demo", "--serve", "127.0.0.1:0", "--attached", "--store", "sqlite:" + filepath.Join(t.TempDir(), "keys.db")}, args...)...)
	cmd.Stderr = os.Stderr
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
		done := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		done.Stop()
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatal("the service did not start")
	}
	url, ok := strings.CutPrefix(lines.Text(), "listening on http://")
	if !ok {
		t.Fatalf("the service said %q", lines.Text())
	}
	go io.Copy(io.Discard, stdout)
	return &demo{address: url}
}

type charge struct {
	PaymentID string `json:"payment_id"`
	OrderID   string `json:"order_id"`
	Amount    int64  `json:"amount"`
}

// ledger returns every charge that really happened, by order.
func (d *demo) ledger(t *testing.T) map[string][]charge {
	t.Helper()
	resp, err := http.Get("http://" + d.address + "/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var l struct{ Charges []charge }
	if err := json.NewDecoder(resp.Body).Decode(&l); err != nil {
		t.Fatal(err)
	}
	byOrder := make(map[string][]charge)
	for _, c := range l.Charges {
		byOrder[c.OrderID] = append(byOrder[c.OrderID], c)
	}
	return byOrder
}
