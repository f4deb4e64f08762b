package payments

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/ibid-go/ibid"
)

func (s *Service) postPayment(w http.ResponseWriter, r *http.Request) {
	var p Payment
	f, err := read(r, &struct {
		OrderID  *string `json:"order_id"`
		Amount   *int64  `json:"amount"`
		Currency *string `json:"currency"`
	}{&p.OrderID, &p.Amount, &p.Currency}, p.check)
	if err != nil {
		problem(http.StatusBadRequest, err.Error()).write(w)
		return
	}
	p.user = r.Header.Get(UserHeader)
	s.pay(r.Context(), p, f).write(w)
}

// pay reserves, charges and settles. Whatever fails after EffectStarted leaves
// the outcome unknown, and whatever fails before it frees the key.
func (s *Service) pay(ctx context.Context, p Payment, f faults) answer {
	p.chargeKey = operationKey(ctx, "charge")
	attempt, _ := ibid.AttemptFrom(ctx)
	p, err := s.book.Reserve(ctx, p, attempt.Guard != "")
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
func (s *Service) settle(ctx context.Context, p Payment, pad int) (answer, error) {
	if err := s.book.Settle(ctx, p.ID); err != nil {
		return answer{}, err
	}
	p.Status = "completed"
	return newAnswer(http.StatusCreated, "/payments/"+p.ID, struct {
		Payment
		Padding string `json:"padding,omitempty"`
	}{p, strings.Repeat("x", pad)}), nil
}

// ProbePayment asks the ledger, by derived key, whether a vanished attempt
// charged, and writes the answer that it would have given. It is a Probe of
// ibidhttp.
//
// "Not done" is right only because a lapsed claim means a dead process here: a
// provider that an attempt may still be on its way to must also deduplicate the key.
func (s *Service) ProbePayment(w http.ResponseWriter, r *http.Request) ibid.Found {
	ctx := r.Context()
	p, err := s.book.Charged(ctx, ibid.DerivedKey(ctx, "charge"))
	if err != nil {
		return missing(err)
	}
	a, err := s.settle(ctx, p, 0)
	if err != nil {
		return ibid.FoundUnknown
	}
	a.write(w)
	return ibid.FoundDone
}

// missing tells what is not there from what could not be asked.
func missing(err error) ibid.Found {
	if errors.Is(err, ErrNotFound) {
		return ibid.FoundNotDone
	}
	return ibid.FoundUnknown
}

// operationKey is the derived key for label, which every attempt of the
// operation shares. Without ibid around it every request is an operation.
func operationKey(ctx context.Context, label string) string {
	if key := ibid.DerivedKey(ctx, label); key != "" {
		return key
	}
	return rand.Text()
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

func (p *Payment) check() error {
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
