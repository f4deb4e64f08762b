package payments

import (
	"context"
	"errors"
	"net/http"

	"github.com/ibid-go/ibid"
)

func (s *Service) postRefund(w http.ResponseWriter, r *http.Request) {
	var refund Refund
	f, err := read(r, &struct {
		PaymentID *string `json:"payment_id"`
		Amount    *int64  `json:"amount"`
	}{&refund.PaymentID, &refund.Amount}, refund.check)
	if err != nil {
		problem(http.StatusBadRequest, err.Error()).write(w)
		return
	}
	refund.user = r.Header.Get(UserHeader)
	s.refund(r.Context(), refund, f).write(w)
}

func (s *Service) refund(ctx context.Context, r Refund, f faults) answer {
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
	return newAnswer(http.StatusCreated, "/refunds/"+r.ID, r)
}

// ProbeRefund is ProbePayment for refunds.
func (s *Service) ProbeRefund(w http.ResponseWriter, r *http.Request) ibid.Found {
	there, err := refund(r.Context(), s.book.db, "refund_key = ?", ibid.DerivedKey(r.Context(), "refund"))
	if err != nil {
		return missing(err)
	}
	newAnswer(http.StatusCreated, "/refunds/"+there.ID, there).write(w)
	return ibid.FoundDone
}

func (r *Refund) check() error {
	switch {
	case r.PaymentID == "":
		return errors.New("payment_id must name a payment")
	case r.Amount <= 0:
		return errors.New("amount must be a whole number above 0, in the smallest unit of the currency")
	}
	return nil
}
