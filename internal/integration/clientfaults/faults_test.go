package clientfaults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
	"github.com/ibid-go/ibid/internal/integration/clientfaults"
)

var (
	operations = flag.Int("operations", 10_000, "operations of the fault run; a tenth with -short")
	seed       = flag.Uint64("seed", 1, "seed of the faults")
)

const (
	callers    = 100
	faultShare = 0.30
)

// payer asks for a payment until it holds the answer, or gives up.
type payer func(url, order string, amount int) (charge, error)

// TestFaults: 10,000 payments through a proxy that does something to 30 % of all
// requests end with 10,000 charges, and every caller holds the answer of its own.
func TestFaults(t *testing.T) {
	base := newBase()
	defer base.CloseIdleConnections()
	var attempts, replays atomic.Int64
	client := ibidclient.New(&ibidclient.Options{
		Base: base, Attempts: 20, Budget: ibidclient.Budget{Reserve: -1},
		BaseDelay: 20 * time.Millisecond, MaxDelay: time.Second, AttemptTimeout: 2 * time.Second,
	})
	run := campaign(t, func(url, order string, amount int) (charge, error) {
		resp, err := client.Do(payment(url, order, amount))
		if err := ibidclient.Check(resp, err); err != nil {
			return charge{}, err
		}
		defer resp.Body.Close()
		attempts.Add(int64(ibidclient.AttemptsOf(resp)))
		if ibidclient.Replayed(resp) {
			replays.Add(1)
		}
		return decode(resp)
	})
	t.Logf("%v; %d attempts, %d answers were replays", run, attempts.Load(), replays.Load())
	if run.charges != run.operations || run.duplicates != 0 || run.lost != 0 || run.failed != 0 || run.wrong != 0 {
		t.Errorf("%v", run)
	}
	for f, n := range run.faults {
		if n == 0 {
			t.Errorf("the fault %q never happened", f)
		}
	}
	// An attempt that timed out on a busy machine may not have reached the proxy.
	if n, seen := int(attempts.Load()), run.requests(); n < seen || n > seen+seen/100 {
		t.Errorf("AttemptsOf adds up to %d, the proxy saw %d requests", n, seen)
	}
	if replays.Load() == 0 {
		t.Error("no answer was a replay: the faults did not strike between effect and answer")
	}
}

// TestControl: the same run with a client that makes a key per attempt charges
// twice. Were it green, the run above would prove nothing.
func TestControl(t *testing.T) {
	base := newBase()
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: base, Timeout: 2 * time.Second}
	run := campaign(t, func(url, order string, amount int) (c charge, err error) {
		for range 20 {
			req := payment(url, order, amount)
			req.Header.Set("Idempotency-Key", ibidclient.UUIDv7())
			req.GetBody = nil
			var resp *http.Response
			if resp, err = client.Do(req); err != nil {
				continue
			}
			if c, err = decode(resp); err == nil {
				resp.Body.Close()
				return c, nil
			}
			resp.Body.Close()
		}
		return c, err
	})
	t.Logf("%v", run)
	if run.duplicates == 0 {
		t.Error("the control shows no duplicate")
	}
}

// result is what came of one campaign.
type result struct {
	operations, charges int
	duplicates          int // orders charged more than once
	lost                int // orders never charged
	failed              int // callers without an answer
	wrong               int // callers with another answer than the charge of their order
	faults              map[clientfaults.Fault]int
	took                time.Duration
}

// requests is how many requests the proxy saw.
func (r result) requests() (n int) {
	for _, k := range r.faults {
		n += k
	}
	return n
}

func (r result) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d operations in %v: %d charges, %d orders charged twice, %d lost, %d callers without an answer, %d with a wrong one;",
		r.operations, r.took.Round(10*time.Millisecond), r.charges, r.duplicates, r.lost, r.failed, r.wrong)
	for _, f := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(&s, " %v %d", f, r.faults[f])
	}
	fmt.Fprintf(&s, " of %d requests", r.requests())
	return s.String()
}

// campaign makes all payments, and compares what the callers hold with the ledger.
func campaign(t *testing.T, pay payer) result {
	t.Helper()
	r := result{operations: *operations}
	if testing.Short() {
		r.operations /= 10
	}
	server := startDemo(t)
	proxy, err := clientfaults.NewProxy(server.address, clientfaults.Plan(*seed, faultShare), clientfaults.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	held := make([]charge, r.operations)
	errs := make([]error, r.operations)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < r.operations; i = int(next.Add(1) - 1) {
				held[i], errs[i] = pay(proxy.URL(), fmt.Sprint("order-", i), i+1)
			}
		})
	}
	wg.Wait()
	proxy.Close()
	r.took = time.Since(start)
	r.faults = proxy.Counts()
	ledger := server.ledger(t)
	for i, got := range held {
		charges := ledger[fmt.Sprint("order-", i)]
		r.charges += len(charges)
		switch {
		case len(charges) == 0:
			r.lost++
		case len(charges) > 1:
			r.duplicates++
		}
		switch {
		case errs[i] != nil:
			r.failed++
			if r.failed <= 3 {
				t.Logf("order %d: %v", i, errs[i])
			}
		case len(charges) == 0 || got != charges[0] || got.Amount != int64(i+1):
			r.wrong++
		}
	}
	return r
}

func newBase() *http.Transport {
	return &http.Transport{MaxIdleConns: callers, MaxIdleConnsPerHost: callers}
}

func payment(url, order string, amount int) *http.Request {
	body := fmt.Appendf(nil, `{"order_id":%q,"amount":%d,"currency":"TWD"}`, order, amount)
	req, err := http.NewRequest(http.MethodPost, url+"/payments", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-User-ID", "alice")
	return req
}

func decode(resp *http.Response) (c charge, err error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return c, err
	}
	if resp.StatusCode != http.StatusCreated {
		return c, errors.New(resp.Status)
	}
	return c, json.Unmarshal(body, &c)
}

// TestExample runs examples/client twice against the real service: one charge.
func TestExample(t *testing.T) {
	server := startDemo(t)
	for _, want := range []string{"replayed false", "replayed true"} {
		cmd := exec.CommandContext(t.Context(), "go", "run", "./examples/client", "http://"+server.address, "order-1")
		cmd.Dir = filepath.Join("..", "..", "..")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("want %q: %v\n%s", want, err, out)
		}
	}
	if n := len(server.ledger(t)["order-1"]); n != 1 {
		t.Errorf("%d charges", n)
	}
}
