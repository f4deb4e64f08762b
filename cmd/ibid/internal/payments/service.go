package payments

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/ibid-go/ibid"
)

// UserHeader names the caller. In front of a real service it would be what
// authentication found out; here it is believed.
const UserHeader = "X-User-ID"

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// Middleware wraps the handler of one route.
type Middleware func(http.Handler) http.Handler

// Service is the API over a Book.
type Service struct {
	book *Book
}

// New returns the service over book, which stays the caller's to close.
func New(book *Book) *Service { return &Service{book: book} }

// Routes returns the API with pay around POST /payments and refund around
// POST /refunds. Nil leaves a route naked. Both sit inside authentication: a
// request without a caller never reaches them.
func (s *Service) Routes(pay, refund Middleware) http.Handler {
	wrap := func(m Middleware, h http.HandlerFunc) http.Handler {
		if m == nil {
			return h
		}
		return m(h)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", authenticated(wrap(pay, s.postPayment)))
	mux.Handle("POST /refunds", authenticated(wrap(refund, s.postRefund)))
	mux.Handle("GET /payments/{id}", authenticated(http.HandlerFunc(s.getPayment)))
	mux.Handle("GET /refunds/{id}", authenticated(http.HandlerFunc(s.getRefund)))
	mux.HandleFunc("GET /ledger", s.getLedger)
	return mux
}

func authenticated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(UserHeader) == "" {
			problem(http.StatusUnauthorized, "the request names no caller: send "+UserHeader).write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Answer is a whole answer, before it is written.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

func (a Answer) write(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body)
}

func answer(status int, location string, body any) Answer {
	b, err := json.Marshal(body)
	if err != nil {
		return problem(http.StatusInternalServerError, err.Error())
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if location != "" {
		h.Set("Location", location)
	}
	return Answer{Status: status, Header: h, Body: b}
}

// problem is an answer in the form of RFC 9457.
func problem(status int, detail string) Answer {
	a := answer(status, "", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
	a.Header.Set("Content-Type", "application/problem+json")
	return a
}

// failure is the answer to what went wrong, once the request was understood.
func failure(err error, location string) Answer {
	switch {
	case errors.Is(err, ErrNotFound):
		return problem(http.StatusNotFound, "there is no such payment or refund of this caller")
	case errors.Is(err, ErrTooMuch):
		return problem(http.StatusConflict, "the refund is more than is left of the payment")
	case errors.Is(err, ErrExists):
		a := problem(http.StatusConflict, "the unique constraint held: this operation was settled before, see Location")
		a.Header.Set("Location", location)
		return a
	case errors.Is(err, errBefore):
		return problem(http.StatusServiceUnavailable, err.Error())
	}
	return problem(http.StatusInternalServerError, err.Error())
}

func (s *Service) postPayment(w http.ResponseWriter, r *http.Request) {
	var p Payment
	var f faults
	err := decode(r, &struct {
		OrderID  *string `json:"order_id"`
		Amount   *int64  `json:"amount"`
		Currency *string `json:"currency"`
	}{&p.OrderID, &p.Amount, &p.Currency})
	if err == nil {
		err = p.check()
	}
	if err == nil {
		f, err = parseFaults(r.Header)
	}
	if err != nil {
		problem(http.StatusBadRequest, err.Error()).write(w)
		return
	}
	p.user = r.Header.Get(UserHeader)
	s.pay(r.Context(), p, f).write(w)
}

// pay reserves, charges and settles. Whatever fails after EffectStarted leaves
// the outcome unknown, and whatever fails before it frees the key.
func (s *Service) pay(ctx context.Context, p Payment, f faults) Answer {
	p.chargeKey = operationKey(ctx, "charge")
	p, err := s.book.Reserve(ctx, p)
	if err != nil {
		return failure(err, "/payments/"+p.ID)
	}
	if err := f.before(ctx); err != nil {
		return failure(err, "")
	}
	ibid.EffectStarted(ctx)
	if err := s.book.Charge(ctx, p); err != nil {
		return failure(err, "")
	}
	if err := f.after(ctx); err != nil {
		return failure(err, "")
	}
	a, err := s.settle(ctx, p, f.pad)
	if err != nil {
		return failure(err, "")
	}
	return a
}

// settle marks a charged payment as completed, and returns the answer.
func (s *Service) settle(ctx context.Context, p Payment, pad int) (Answer, error) {
	if err := s.book.Settle(ctx, p.ID); err != nil {
		return Answer{}, err
	}
	p.Status = "completed"
	return answer(http.StatusCreated, "/payments/"+p.ID, struct {
		Payment
		Padding string `json:"padding,omitempty"`
	}{p, strings.Repeat("x", pad)}), nil
}

// ProbePayment asks the ledger, by derived key, whether a vanished attempt
// charged, and returns the answer that it would have given. It is the look-up
// of an ibid.Prober.
//
// "Not done" is right only because a lapsed claim means a dead process here: a
// provider that an attempt may still be on its way to must also deduplicate the key.
func (s *Service) ProbePayment(ctx context.Context) (ibid.Found, Answer, error) {
	p, err := s.book.Charged(ctx, ibid.DerivedKey(ctx, "charge"))
	switch {
	case errors.Is(err, ErrNotFound):
		return ibid.FoundNotDone, Answer{}, nil
	case err != nil:
		return ibid.FoundUnknown, Answer{}, err
	}
	a, err := s.settle(ctx, p, 0)
	if err != nil {
		return ibid.FoundUnknown, Answer{}, err
	}
	return ibid.FoundDone, a, nil
}

func (s *Service) postRefund(w http.ResponseWriter, r *http.Request) {
	var refund Refund
	var f faults
	err := decode(r, &struct {
		PaymentID *string `json:"payment_id"`
		Amount    *int64  `json:"amount"`
	}{&refund.PaymentID, &refund.Amount})
	if err == nil {
		err = refund.check()
	}
	if err == nil {
		f, err = parseFaults(r.Header)
	}
	if err != nil {
		problem(http.StatusBadRequest, err.Error()).write(w)
		return
	}
	refund.user = r.Header.Get(UserHeader)
	s.refund(r.Context(), refund, f).write(w)
}

func (s *Service) refund(ctx context.Context, r Refund, f faults) Answer {
	r.refundKey = operationKey(ctx, "refund")
	if err := f.before(ctx); err != nil {
		return failure(err, "")
	}
	ibid.EffectStarted(ctx)
	r, err := s.book.AddRefund(ctx, r)
	if err != nil {
		return failure(err, "/refunds/"+r.ID)
	}
	if err := f.after(ctx); err != nil {
		return failure(err, "")
	}
	return answer(http.StatusCreated, "/refunds/"+r.ID, r)
}

// ProbeRefund is ProbePayment for refunds.
func (s *Service) ProbeRefund(ctx context.Context) (ibid.Found, Answer, error) {
	r, err := refund(ctx, s.book.db, "refund_key = ?", ibid.DerivedKey(ctx, "refund"))
	switch {
	case errors.Is(err, ErrNotFound):
		return ibid.FoundNotDone, Answer{}, nil
	case err != nil:
		return ibid.FoundUnknown, Answer{}, err
	}
	return ibid.FoundDone, answer(http.StatusCreated, "/refunds/"+r.ID, r), nil
}

func (s *Service) getPayment(w http.ResponseWriter, r *http.Request) {
	p, err := s.book.Payment(r.Context(), r.PathValue("id"), r.Header.Get(UserHeader))
	if err != nil {
		failure(err, "").write(w)
		return
	}
	answer(http.StatusOK, "", p).write(w)
}

func (s *Service) getRefund(w http.ResponseWriter, r *http.Request) {
	refund, err := s.book.Refund(r.Context(), r.PathValue("id"), r.Header.Get(UserHeader))
	if err != nil {
		failure(err, "").write(w)
		return
	}
	answer(http.StatusOK, "", refund).write(w)
}

func (s *Service) getLedger(w http.ResponseWriter, r *http.Request) {
	charges, err := s.book.Charges(r.Context(), r.URL.Query().Get("order_id"))
	if err != nil {
		failure(err, "").write(w)
		return
	}
	answer(http.StatusOK, "", Ledger{len(charges), charges}).write(w)
}

// Ledger is the answer of GET /ledger.
type Ledger struct {
	Count   int      `json:"count"`
	Charges []Charge `json:"charges"`
}

// operationKey is the derived key for label, which every attempt of the
// operation shares. Without ibid around it every request is an operation.
func operationKey(ctx context.Context, label string) string {
	if key := ibid.DerivedKey(ctx, label); key != "" {
		return key
	}
	return rand.Text()
}

// decode reads the body of r, which must be one JSON object with no fields but
// those of into.
func decode(r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the body must be one JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body must be one JSON object: there is more after it")
	}
	return nil
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

func (p Payment) check() error {
	switch {
	case p.OrderID == "" || len(p.OrderID) > 100:
		return errors.New("order_id must have 1 to 100 bytes")
	case p.Amount <= 0:
		return errors.New("amount must be a whole number above 0, in the smallest unit of the currency")
	case !currency.MatchString(p.Currency):
		return errors.New("currency must be three capital letters, such as TWD")
	}
	return nil
}

func (r Refund) check() error {
	switch {
	case r.PaymentID == "":
		return errors.New("payment_id must name a payment")
	case r.Amount <= 0:
		return errors.New("amount must be a whole number above 0, in the smallest unit of the currency")
	}
	return nil
}
