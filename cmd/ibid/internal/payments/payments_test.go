package payments_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/payments"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/memstore"
)

// api is the service with or without ibid around it.
type api struct {
	t    *testing.T
	h    http.Handler
	book *payments.Book
}

func openBook(t *testing.T, path string, opts *payments.BookOptions) *payments.Book {
	t.Helper()
	book, err := payments.OpenBook(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return book
}

func naked(t *testing.T) api {
	t.Helper()
	book := openBook(t, filepath.Join(t.TempDir(), "a book?.db"), &payments.BookOptions{NoConstraint: true})
	return api{t, payments.New(book).Routes(nil, nil), book}
}

// guarded is the service over book inside an engine of its own.
func guarded(t *testing.T, book *payments.Book, policy ibid.Policy) api {
	t.Helper()
	engine, err := ibid.New(t.Context(), memstore.New(nil), &ibid.Options{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	s := payments.New(book)
	pay, refund := &ibidhttp.Options{Required: true}, &ibidhttp.Options{Required: true}
	if policy.Takeover == ibid.Probe {
		pay.Probe, refund.Probe = s.ProbePayment, s.ProbeRefund
	}
	scope := ibidhttp.ByHeader(payments.UserHeader)
	return api{t, s.Routes(ibidhttp.New(engine, scope, pay), ibidhttp.New(engine, scope, refund)), book}
}

// call sends a request of alice, with key "k", unless headers say otherwise:
// "Name: value", or "Name:" for none.
func (a api) call(method, path, body string, headers ...string) (status int, header http.Header, got string) {
	a.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-User-ID", "alice")
	r.Header.Set("Idempotency-Key", "k")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ":")
		r.Header.Del(name)
		if value = strings.TrimSpace(value); value != "" {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	func() {
		defer func() { recover() }() // net/http would
		a.h.ServeHTTP(w, r)
	}()
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return w.Code, w.Header(), string(b)
}

func (a api) charges(want int) {
	a.t.Helper()
	_, _, body := a.call("GET", "/ledger?order_id=o-1", "")
	var l payments.Ledger
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		a.t.Fatal(err)
	}
	if l.Count != want || len(l.Charges) != want {
		a.t.Errorf("the ledger holds %s, want %d charges", body, want)
	}
}

const order = `{"order_id":"o-1","amount":3000,"currency":"TWD"}`

func TestPaymentAnswersInTheAgreedShape(t *testing.T) {
	t.Parallel()
	a := naked(t)
	status, header, body := a.call("POST", "/payments", order)
	var p struct {
		ID string `json:"payment_id"`
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.ID == "" {
		t.Fatalf("%v: %s", err, body)
	}
	want := fmt.Sprintf(`{"payment_id":%q,"order_id":"o-1","amount":3000,"currency":"TWD","status":"completed"}`, p.ID)
	if status != 201 || body != want || header.Get("Location") != "/payments/"+p.ID {
		t.Errorf("got %d %s at %q, want 201 %s", status, body, header.Get("Location"), want)
	}
	if status, _, body := a.call("GET", "/payments/"+p.ID, ""); status != 200 || body != want {
		t.Errorf("GET: got %d %s, want %s", status, body, want)
	}
	if status, _, _ := a.call("GET", "/payments/"+p.ID, "", "X-User-ID: bob"); status != 404 {
		t.Errorf("another user's GET: got %d, want 404", status)
	}
	want = fmt.Sprintf(`{"count":1,"charges":[{"payment_id":%q,"order_id":"o-1","user_id":"alice","amount":3000,"currency":"TWD"}]}`, p.ID)
	if _, _, body := a.call("GET", "/ledger?order_id=o-1", ""); body != want {
		t.Errorf("ledger: got %s, want %s", body, want)
	}
	if _, _, body := a.call("GET", "/ledger?order_id=o-2", ""); body != `{"count":0,"charges":[]}` {
		t.Errorf("ledger of no charges: got %s", body)
	}
}

func TestTheLedgerHasNoConstraint(t *testing.T) {
	t.Parallel()
	a := naked(t)
	for range 3 {
		if status, _, body := a.call("POST", "/payments", order); status != 201 {
			t.Fatalf("got %d %s", status, body)
		}
	}
	a.charges(3)
}

func TestBadRequestsChargeNothingAndSayWhy(t *testing.T) {
	t.Parallel()
	a := naked(t)
	for _, row := range []struct {
		why, body string
		headers   []string
		status    int
		says      string
	}{
		{"nobody would own the payment", order, []string{"X-User-ID:"}, 401, "X-User-ID"},
		{"half a body is no order", `{"order_id":`, nil, 400, "JSON"},
		{"two orders are not one", order + order, nil, 400, "more after it"},
		{"a stray bracket is not the end", order + "}", nil, 400, "more after it"},
		{"a misspelt field would be lost", `{"order_id":"o-1","amout":1,"currency":"TWD"}`, nil, 400, "amout"},
		{"a charge needs an order", `{"amount":1,"currency":"TWD"}`, nil, 400, "order_id"},
		{"nothing is no amount", `{"order_id":"o-1","currency":"TWD"}`, nil, 400, "amount"},
		{"less than nothing is a refund", `{"order_id":"o-1","amount":-1,"currency":"TWD"}`, nil, 400, "amount"},
		{"rounding money is not for us", `{"order_id":"o-1","amount":30.5,"currency":"TWD"}`, nil, 400, "amount"},
		{"a number that overflows would be another", `{"order_id":"o-1","amount":9223372036854775808,"currency":"TWD"}`, nil, 400, "amount"},
		{"twd is no currency", `{"order_id":"o-1","amount":1,"currency":"twd"}`, nil, 400, "currency"},
		{"a fault that does nothing would prove nothing", order, []string{"Demo-Fail: 503"}, 400, "503-before"},
		{"a delay without a unit could be anything", order, []string{"Demo-Delay: 2"}, 400, "Demo-Delay"},
		{"time does not run backwards", order, []string{"Demo-Hold: -1s"}, 400, "Demo-Hold"},
		{"an answer has a size", order, []string{"Demo-Pad: many"}, 400, "Demo-Pad"},
		{"a body without end fills the memory", `{"order_id":"` + strings.Repeat("o", 1<<17) + `"}`, nil, 400, "too large"},
	} {
		status, header, body := a.call("POST", "/payments", row.body, row.headers...)
		if status != row.status || !strings.Contains(body, row.says) || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %d %s, want %d that says %q", row.why, status, body, row.status, row.says)
		}
	}
	a.charges(0)
}

func TestRefundsNeverExceedThePayment(t *testing.T) {
	t.Parallel()
	a := naked(t)
	_, header, _ := a.call("POST", "/payments", order)
	id := strings.TrimPrefix(header.Get("Location"), "/payments/")
	refund := func(amount int, headers ...string) (int, string) {
		status, header, body := a.call("POST", "/refunds", fmt.Sprintf(`{"payment_id":%q,"amount":%d}`, id, amount), headers...)
		if at := header.Get("Location"); status == 201 {
			if again, _, got := a.call("GET", at, ""); again != 200 || got != body {
				t.Errorf("GET %s: got %d %s, want %s", at, again, got, body)
			}
		}
		return status, body
	}
	for _, row := range []struct {
		why    string
		amount int
		header string
		status int
	}{
		{"a part may be refunded", 2000, "X-Any: thing", 201},
		{"more than is left may not", 1001, "X-Any: thing", 409},
		{"nothing is no refund", 0, "X-Any: thing", 400},
		{"another user has no such payment", 1, "X-User-ID: bob", 404},
		{"the rest may be refunded", 1000, "X-Any: thing", 201},
		{"nothing is left", 1, "X-Any: thing", 409},
	} {
		if status, body := refund(row.amount, row.header); status != row.status {
			t.Errorf("%s: got %d %s, want %d", row.why, status, body, row.status)
		}
	}
}

func TestFaultsBeforeTheChargeFreeTheKey(t *testing.T) {
	t.Parallel()
	a := guarded(t, openBook(t, filepath.Join(t.TempDir(), "book"), nil), ibid.Policy{})
	if status, _, body := a.call("POST", "/payments", order, "Demo-Fail: 503-before"); status != 503 {
		t.Fatalf("got %d %s, want 503", status, body)
	}
	a.charges(0)
	if status, _, body := a.call("POST", "/payments", order); status != 201 {
		t.Fatalf("the retry: got %d %s, want 201", status, body)
	}
	a.charges(1)
}

func TestFaultsAfterTheChargeAreUnknownOrLookedUp(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"500-after", "panic-after"} {
		refuse := guarded(t, openBook(t, filepath.Join(t.TempDir(), "book"), nil), ibid.Policy{})
		refuse.call("POST", "/payments", order, "Demo-Fail: "+fault)
		if status, _, body := refuse.call("POST", "/payments", order); status != 409 || !strings.Contains(body, "outcome-unknown") {
			t.Errorf("%s, refuse: got %d %s, want 409 outcome-unknown", fault, status, body)
		}
		refuse.charges(1)

		probe := guarded(t, openBook(t, filepath.Join(t.TempDir(), "book"), nil), ibid.Policy{Takeover: ibid.Probe})
		probe.call("POST", "/payments", order, "Demo-Fail: "+fault)
		status, header, body := probe.call("POST", "/payments", order)
		if status != 201 || !strings.Contains(body, `"status":"completed"`) {
			t.Errorf("%s, probe: got %d %s, want 201", fault, status, body)
		}
		if status, _, got := probe.call("GET", header.Get("Location"), ""); status != 200 || got != body {
			t.Errorf("%s, probe: the payment is %d %s, want %s", fault, status, got, body)
		}
		probe.charges(1)
	}
}

func TestProbeRunsWhatWasNotCharged(t *testing.T) {
	t.Parallel()
	a := guarded(t, openBook(t, filepath.Join(t.TempDir(), "book"), nil),
		ibid.Policy{Takeover: ibid.Probe, Lease: 50 * time.Millisecond, MaxRun: 50 * time.Millisecond})
	if status, _, body := a.call("POST", "/payments", order, "Demo-Delay: 1m"); status < 400 {
		t.Fatalf("an attempt over MaxRun: got %d %s", status, body)
	}
	a.charges(0)
	if status, _, body := a.call("POST", "/payments", order); status != 201 {
		t.Errorf("the retry: got %d %s, want 201", status, body)
	}
	a.charges(1)
}

func TestProbeFindsARefund(t *testing.T) {
	t.Parallel()
	a := guarded(t, openBook(t, filepath.Join(t.TempDir(), "book"), nil), ibid.Policy{Takeover: ibid.Probe})
	_, header, _ := a.call("POST", "/payments", order)
	body := fmt.Sprintf(`{"payment_id":%q,"amount":3000}`, strings.TrimPrefix(header.Get("Location"), "/payments/"))
	a.call("POST", "/refunds", body, "Demo-Fail: panic-after")
	status, header, got := a.call("POST", "/refunds", body)
	if status != 201 {
		t.Fatalf("the retry: got %d %s, want 201", status, got)
	}
	if status, _, found := a.call("GET", header.Get("Location"), ""); status != 200 || found != got {
		t.Errorf("the refund is %d %s, want %s", status, found, got)
	}
}

// Two engines that know nothing of each other stand for a store that lost its
// records.
func TestTheUniqueConstraintIsTheLastDefence(t *testing.T) {
	t.Parallel()
	book := openBook(t, filepath.Join(t.TempDir(), "book"), nil)
	before, after := guarded(t, book, ibid.Policy{}), guarded(t, book, ibid.Policy{})
	_, header, _ := before.call("POST", "/payments", order)
	status, again, body := after.call("POST", "/payments", order)
	if status != 409 || again.Get("Location") != header.Get("Location") {
		t.Errorf("got %d %s at %q, want 409 at %q", status, body, again.Get("Location"), header.Get("Location"))
	}
	after.charges(1)
	if status, _, body := after.call("POST", "/payments", order, "Idempotency-Key: other"); status != 201 {
		t.Errorf("another key: got %d %s, want 201", status, body)
	}
	after.charges(2)
}

func TestABookOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "book")
	first := openBook(t, path, nil)
	p, err := first.Reserve(context.Background(), payments.Payment{OrderID: "o-1", Amount: 1, Currency: "TWD"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Charge(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	second := openBook(t, path, nil) // while first is open, as after a kill
	if charges, err := second.Charges(context.Background(), ""); err != nil || len(charges) != 1 {
		t.Errorf("got %v, %v, want the charge", charges, err)
	}
}
