package clientfaults_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
	"github.com/ibid-go/ibid/internal/integration/clientfaults"
)

// The client process is this test binary, run again. It pays for a list of orders, one after the
// other, and writes down each payment that it was told of. With a journal it begins with what
// an earlier process left unanswered.

// clientEnv holds the arguments of the client process: URL, file of payments,
// number of orders, folder of the journal or "".
const clientEnv = "IBID_CLIENTFAULTS"

func TestMain(m *testing.M) {
	if args := os.Getenv(clientEnv); args != "" {
		if err := clientProcess(strings.Split(args, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "ibid-clientfaults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func clientProcess(args []string) error {
	url, paid := args[0], args[1]
	var orders int
	if _, err := fmt.Sscan(args[2], &orders); err != nil {
		return err
	}
	opts := &ibidclient.Options{BaseDelay: 10 * time.Millisecond, MaxDelay: 100 * time.Millisecond}
	if dir := args[3]; dir != "" {
		j, err := ibidclient.NewFileJournal(dir)
		if err != nil {
			return err
		}
		opts.Journal = j
	}
	client := ibidclient.New(opts)
	ctx := context.Background()
	done, err := payments(paid)
	if err != nil {
		return err
	}
	pay := func(ctx context.Context, order string) error {
		ctx = ibidclient.WithLabel(ctx, order)
		resp, err := client.Do(payment(url, order, 1).WithContext(ctx))
		if err := ibidclient.Check(resp, err); err != nil {
			return err
		}
		defer resp.Body.Close() // the journal forgets only now, when the payment is written down
		c, err := decode(resp)
		if err != nil || done[order] != "" {
			return err
		}
		done[order] = c.PaymentID
		return write(paid, order, c.PaymentID)
	}
	if opts.Journal != nil {
		left, err := opts.Journal.Pending(ctx)
		if err != nil {
			return err
		}
		for _, e := range left {
			if err := pay(ibidclient.WithKey(ctx, e.Key), e.Label); err != nil {
				return err
			}
		}
	}
	for i := range orders {
		if order := fmt.Sprint("order-", i); done[order] == "" {
			if err := pay(ctx, order); err != nil {
				return err
			}
		}
	}
	return nil
}

// write appends one payment to the file, durably.
func write(path, order, id string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, order, id); err != nil {
		return err
	}
	return f.Sync()
}

// payments reads the file: order → payment.
func payments(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	m := make(map[string]string)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if order, id, ok := strings.Cut(lines.Text(), " "); ok {
			m[order] = id
		}
	}
	return m, nil
}

// where a client process is killed.
type where int

const (
	beforeServer where = iota // sent; the server gets the request after the death
	beforeAnswer              // the server has answered
	anywhere                  // after a random time
)

// killed is what came of a campaign of kills.
type killed struct {
	orders, kills, struck, pending int
	duplicates, lost, wrong        int
}

// killClients runs client processes until all orders are paid, and kills most of them.
func killClients(t *testing.T, journal string) (r killed) {
	server := startDemo(t)
	r = killed{orders: 300, kills: 45}
	if testing.Short() {
		r = killed{orders: 100, kills: 15}
	}
	paid := filepath.Join(t.TempDir(), "payments")

	var mu sync.Mutex
	var victim *exec.Cmd // killed at the next strike; nil when none is due
	var point where
	strike := func(here where) {
		mu.Lock()
		defer mu.Unlock()
		if victim != nil && point == here {
			victim.Process.Kill()
			victim.Wait() // the process is dead before anything goes on
			victim = nil
			r.struck++
		}
	}
	proxy, err := clientfaults.NewProxy(server.address, func() clientfaults.Fault { return clientfaults.None }, clientfaults.Hooks{
		Request: func() { strike(beforeServer) },
		Answer:  func() { strike(beforeAnswer) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()

	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), clientEnv+"="+strings.Join([]string{proxy.URL(), paid, fmt.Sprint(r.orders), journal}, "|"))
		cmd.Stderr = os.Stderr
		mu.Lock()
		defer mu.Unlock()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	for i := range r.kills {
		mu.Lock()
		point = where(i % 3)
		mu.Unlock()
		cmd := start()
		mu.Lock()
		victim = cmd
		mu.Unlock()
		if point == anywhere {
			time.Sleep(time.Duration(5+i%20) * time.Millisecond)
			strike(anywhere)
		}
		deadline := time.Now().Add(20 * time.Second)
		for {
			mu.Lock()
			gone := victim == nil
			mu.Unlock()
			if gone {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the process was not killed: nothing went through the proxy")
			}
			time.Sleep(time.Millisecond)
		}
		if journal != "" {
			r.pending += left(t, journal)
		}
	}
	if out := start(); out.Wait() != nil {
		t.Fatal("the last client process failed")
	}
	proxy.Close()

	ledger := server.ledger(t)
	told, err := payments(paid)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.orders {
		order := fmt.Sprint("order-", i)
		switch n := len(ledger[order]); {
		case n == 0:
			r.lost++
		case n > 1:
			r.duplicates++
		case told[order] != ledger[order][0].PaymentID:
			r.wrong++
		}
	}
	return r
}

func left(t *testing.T, dir string) int {
	t.Helper()
	j, err := ibidclient.NewFileJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := j.Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(p)
}

// TestKilledClients: client processes are killed between send and answer, and
// restarted; nothing is charged twice, and every payment is known at the end.
func TestKilledClients(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := killClients(t, dir)
	t.Logf("%+v", r)
	if r.struck != r.kills || r.pending < r.kills/2 {
		t.Errorf("%d of %d kills struck, %d left a key behind: they did not hit between send and answer", r.struck, r.kills, r.pending)
	}
	if r.duplicates != 0 || r.lost != 0 || r.wrong != 0 {
		t.Errorf("%+v", r)
	}
	if n := left(t, dir); n != 0 {
		t.Errorf("%d operations are still pending at the end", n)
	}
}

// TestKilledClientsControl: the same without a journal charges twice.
func TestKilledClientsControl(t *testing.T) {
	r := killClients(t, "")
	t.Logf("%+v", r)
	if r.duplicates == 0 {
		t.Error("the control shows no duplicate")
	}
}
