package ibidhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/memstore"
)

func Example() {
	engine, err := ibid.New(context.Background(), memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	charges := 0
	charge := func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.Header().Set("Location", fmt.Sprint("/payments/", charges))
		w.WriteHeader(http.StatusCreated)
	}
	pay := ibidhttp.New(engine, ibidhttp.ByHeader("X-User-ID"), &ibidhttp.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", pay(http.HandlerFunc(charge)))

	post := func(key, body string) {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(body))
		r.Header.Set("X-User-ID", "ann")
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("%d %q %q\n", w.Code, w.Header().Get("Location"), w.Header().Get("Idempotent-Replayed"))
	}
	post("k-1", `{"amount":3000}`)
	post("k-1", `{"amount":3000}`)
	post("k-1", `{"amount":9999}`)
	post("k-2", `{"amount":3000}`)
	fmt.Println("charges:", charges)
	// Output:
	// 201 "/payments/1" ""
	// 201 "/payments/1" "true"
	// 422 "" ""
	// 201 "/payments/2" ""
	// charges: 2
}

// A handler that says when its effect begins: what fails before frees the key,
// what fails after leaves the outcome unknown.
func Example_effectStarted() {
	engine, err := ibid.New(context.Background(), memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	bankIsUp := false
	h := ibidhttp.New(engine, ibidhttp.SharedByAll, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bankIsUp {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		ibid.EffectStarted(r.Context())
		// The bank is called with ibid.DerivedKey(r.Context(), "charge"), and no
		// answer comes.
		http.Error(w, "no answer from the bank", http.StatusBadGateway)
	}))
	post := func() {
		r := httptest.NewRequest("POST", "/payments", nil)
		r.Header.Set("Idempotency-Key", "k-1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Link"))
	}
	post()
	bankIsUp = true
	post()
	post()
	// Output:
	// 503 ""
	// 409 "<https://ibid-go.github.io/problems/outcome-unknown>; rel=\"describedby\""
	// 409 "<https://ibid-go.github.io/problems/outcome-unknown>; rel=\"describedby\""
}

// The same route with the conventions of Stripe, and a key of at least 16 bytes.
func ExampleStripe() {
	opts := ibidhttp.Stripe()
	opts.MinLength = 16
	fmt.Println(opts.Methods, opts.Statuses.Mismatch, opts.Kept(http.StatusInternalServerError, nil))
	// Output: [POST] 400 true
}

// Retries that differ in a timestamp are the same request.
func ExampleFingerprint() {
	engine, err := ibid.New(context.Background(), memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	opts := &ibidhttp.Options{Fingerprint: ibidhttp.Fingerprint{Exclude: []string{"/sent_at"}}}
	h := ibidhttp.New(engine, ibidhttp.SharedByAll, opts)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, body := range []string{`{"amount":1,"sent_at":5}`, `{"sent_at":6, "amount":1}`, `{"amount":2,"sent_at":5}`} {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k-1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 422
}
