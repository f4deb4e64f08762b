package payments

import (
	"net/http"
)

// UserHeader names the caller. In front of a real service it would be what
// authentication found out; here it is believed.
const UserHeader = "X-User-ID"

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

func (s *Service) getPayment(w http.ResponseWriter, r *http.Request) {
	p, err := s.book.Payment(r.Context(), r.PathValue("id"), r.Header.Get(UserHeader))
	if err != nil {
		failure(err, "").write(w)
		return
	}
	newAnswer(http.StatusOK, "", p).write(w)
}

func (s *Service) getRefund(w http.ResponseWriter, r *http.Request) {
	refund, err := s.book.Refund(r.Context(), r.PathValue("id"), r.Header.Get(UserHeader))
	if err != nil {
		failure(err, "").write(w)
		return
	}
	newAnswer(http.StatusOK, "", refund).write(w)
}

func (s *Service) getLedger(w http.ResponseWriter, r *http.Request) {
	charges, err := s.book.Charges(r.Context(), r.URL.Query().Get("order_id"))
	if err != nil {
		failure(err, "").write(w)
		return
	}
	newAnswer(http.StatusOK, "", Ledger{len(charges), charges}).write(w)
}

// Ledger is the answer of GET /ledger.
type Ledger struct {
	Count   int      `json:"count"`
	Charges []Charge `json:"charges"`
}
