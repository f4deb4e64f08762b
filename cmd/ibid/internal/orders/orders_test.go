package orders_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/orders"
	"github.com/ibid-go/ibid/cmd/ibid/internal/provider"
)

var quiet = slog.New(slog.DiscardHandler)

// bench is a shop beside a provider, in the test's own process.
type bench struct {
	t        *testing.T
	shop     http.Handler
	provider string // its URL; "" after stop
	stop     func() // ends the provider
	open     *orders.Shop
}

func setUp(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t}
	b.provider, b.stop = startProvider(t, filepath.Join(dir, "charges.db"))
	t.Cleanup(b.stop)
	var err error
	b.open, err = orders.Open(t.Context(), orders.Options{
		Path: filepath.Join(dir, "a shop?.db"), Provider: b.provider, Log: quiet,
		Seal: []ibid.SealKey{{ID: 1, Key: make([]byte, 32)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.open.Close(); err != nil {
			t.Error(err)
		}
	})
	mux := http.NewServeMux()
	b.open.Routes(mux)
	b.shop = mux
	return b
}

func startProvider(t *testing.T, path string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := provider.Run(ctx, provider.Options{Addr: "127.0.0.1:0", Data: path, Log: quiet}, write)
		write.CloseWithError(fmt.Errorf("the provider ended: %w", err))
		ended <- err
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), func() {
		if stopped {
			return
		}
		stopped = true
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// send sends one request, whose headers are given as names and values.
func (b *bench) send(method, path, key, body string, header ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-User-ID", "alice")
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.shop.ServeHTTP(w, r)
	return w
}

func (b *bench) wants(what string, w *httptest.ResponseRecorder, status int, replayed bool) {
	b.t.Helper()
	if w.Code != status || (w.Header().Get("Idempotent-Replayed") == "true") != replayed {
		b.t.Errorf("%s: %d, replayed %q, want %d, replayed %v: %s", what, w.Code, w.Header().Get("Idempotent-Replayed"), status, replayed, w.Body)
	}
}

func (b *bench) wantBooks(order string, want orders.Books) {
	b.t.Helper()
	w := b.send("GET", "/books?item=cup&user=alice&order_id="+order, "", "")
	var got orders.Books
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got != want {
		b.t.Errorf("books of %s: %+v, want %+v (%v)", order, got, want, err)
	}
}

func (b *bench) wantCharges(order string, want int) {
	b.t.Helper()
	resp, err := http.Get(b.provider + "/charges?order_id=" + order)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var l provider.Ledger
	if err := json.NewDecoder(resp.Body).Decode(&l); err != nil || l.Count != want {
		b.t.Errorf("charges of %s: %+v, want %d (%v)", order, l, want, err)
	}
}

func (b *bench) stock(n int) {
	b.t.Helper()
	b.wants("stock", b.send("PUT", "/stock/cup", "", fmt.Sprint(n)), 204, false)
}

func orderBody(order string) string {
	return fmt.Sprintf(`{"order_id":%q,"item":"cup","quantity":2,"amount":3000,"currency":"TWD"}`, order)
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		why    string
		stock  int
		fault  string
		status int
		books  orders.Books
		charge int
	}{
		{"placed", "each step happens once", 5, "", 201, orders.Books{Reserved: 1, Orders: 1, Receipts: 1, Stock: 3}, 1},
		{"sold out", "the condition of the UPDATE refuses, and nothing is charged", 1, "", 409, orders.Books{Stock: 1}, 0},
		{"declined", "what was reserved is given back by a step of its own", 5, provider.Decline, 402, orders.Books{Stock: 5}, 0},
		{"answer lost", "the charge is asked for again under the derived key", 5, provider.Lose, 201, orders.Books{Reserved: 1, Orders: 1, Receipts: 1, Stock: 3}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t)
			b.stock(c.stock)
			first := b.send("POST", "/orders", "k", orderBody("o-1"), provider.FaultHeader, c.fault)
			b.wants("first", first, c.status, false)
			again := b.send("POST", "/orders", "k", orderBody("o-1"))
			b.wants("again", again, c.status, true)
			if first.Body.String() != again.Body.String() {
				t.Errorf("first %s, again %s", first.Body, again.Body)
			}
			b.wantBooks("o-1", c.books)
			b.wantCharges("o-1", c.charge)
		})
	}
}

// An order that fails half-way keeps what its steps have done, and Recover
// finishes it without being asked again.
func TestOrderFailsHalfWay(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	b.stock(5)
	b.stop()
	for range 2 {
		b.wants("while the provider is down", b.send("POST", "/orders", "k", orderBody("o-1")), 503, false)
		b.wantBooks("o-1", orders.Books{Reserved: 1, Stock: 3})
	}
	dir := t.TempDir()
	addr := strings.TrimPrefix(b.provider, "http://")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	back := make(chan error, 2)
	go func() {
		back <- provider.Run(ctx, provider.Options{Addr: addr, Data: filepath.Join(dir, "charges.db"), Log: quiet}, io.Discard)
	}()
	go func() { back <- b.open.Recover(ctx, 20*time.Millisecond) }()
	var books orders.Books
	for deadline := time.Now().Add(20 * time.Second); books.Receipts == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		_ = json.Unmarshal(b.send("GET", "/books?item=cup&order_id=o-1", "", "").Body.Bytes(), &books)
	}
	b.wantBooks("o-1", orders.Books{Reserved: 1, Orders: 1, Receipts: 1, Stock: 3})
	b.wantCharges("o-1", 1)
	for w := b.send("POST", "/orders", "k", orderBody("o-1")); ; w = b.send("POST", "/orders", "k", orderBody("o-1")) {
		if strings.Contains(w.Body.String(), "in-progress") {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		b.wants("the first retry", w, 201, true)
		break
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	<-back
	<-back
}

func TestWalletPayment(t *testing.T) {
	t.Parallel()
	const body = `{"order_id":"o-1","amount":300}`
	type send struct {
		key, body string
		status    int
		replayed  bool
	}
	for _, c := range []struct {
		name  string
		why   string
		sends []send
		books orders.Books
	}{
		{
			"a duplicate", "record and payment are one commit",
			[]send{{"a", body, 201, false}, {"a", body, 201, true}},
			orders.Books{Entries: 1, Balance: 700, Version: 2},
		},
		{
			"another key for the same order", "the natural key, order and method, pays an order once",
			[]send{{"a", body, 201, false}, {"b", body, 409, false}, {"b", body, 409, true}},
			orders.Books{Entries: 1, Balance: 700, Version: 2},
		},
		{
			"two decisions on one balance", "the version refuses the second, and its row is taken back",
			[]send{
				{"a", `{"order_id":"o-0","amount":300,"wallet_version":1}`, 201, false},
				{"b", `{"order_id":"o-1","amount":300,"wallet_version":1}`, 412, false},
				{"b", `{"order_id":"o-1","amount":300,"wallet_version":1}`, 412, true},
				{"c", `{"order_id":"o-1","amount":300,"wallet_version":2}`, 201, false},
			},
			orders.Books{Entries: 1, Balance: 400, Version: 3},
		},
		{
			"too little money", "a refusal takes back the natural key: the order may be paid later",
			[]send{
				{"a", `{"order_id":"o-1","amount":3000}`, 402, false},
				{"a", `{"order_id":"o-1","amount":3000}`, 402, true},
				{"b", body, 201, false},
			},
			orders.Books{Entries: 1, Balance: 700, Version: 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t)
			b.wants("wallet", b.send("PUT", "/wallets/alice", "", "1000"), 204, false)
			location := ""
			for i, s := range c.sends {
				w := b.send("POST", "/wallet/payments", s.key, s.body)
				b.wants(fmt.Sprint("request ", i+1), w, s.status, s.replayed)
				switch at := w.Header().Get("Location"); {
				case s.status == 201:
					location = at
				case s.status == 409 && at != location:
					t.Errorf("the refusal points to %q, the payment is %q", at, location)
				}
			}
			b.wantBooks("o-1", c.books)
		})
	}
}
