package orders

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/ibid-go/ibid/steps"
)

// Order is what is asked for.
type Order struct {
	ID       string `json:"order_id"` // chosen by the client
	Item     string `json:"item"`
	Quantity int64  `json:"quantity"`
	Amount   int64  `json:"amount"` // in the smallest unit of the currency
	Currency string `json:"currency"`
}

func (o *Order) check() error {
	switch {
	case o.ID == "" || o.Item == "":
		return errors.New("order_id and item must not be empty")
	case o.Quantity <= 0 || o.Amount <= 0:
		return errors.New("quantity and amount must be whole numbers above 0")
	case o.Currency == "":
		return errors.New("currency must be three capital letters, such as TWD")
	}
	return nil
}

// Placed is the answer to an order that was carried out.
type Placed struct {
	Order
	ChargeID string `json:"charge_id"`
	Status   string `json:"status"` // always "completed"
}

// requestName names kept requests of POST /orders.
const requestName = "POST /orders"

func (s *Shop) postOrder(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // of bounded length: ibidhttp has read it before
	var o Order
	if err == nil {
		if err = json.Unmarshal(body, &o); err == nil {
			err = o.check()
		}
	}
	if err != nil {
		refuse(http.StatusBadRequest, err.Error()).write(w)
		return
	}
	f := faultsOf(r.Header)
	a, err := steps.Resume(r.Context(), func(ctx context.Context, op *steps.Op) (answer, error) {
		if len(s.opts.Seal) > 0 {
			if err := op.Keep(ctx, keptRequest(r, body)); err != nil {
				return answer{}, err
			}
		}
		return s.place(ctx, op, o, r.Header.Get(UserHeader), f)
	})
	if err != nil {
		a = failure(r.Context(), err)
	}
	a.write(w)
}

// place carries an order out. Every attempt comes along here from the beginning; the
// steps that an earlier one finished are skipped, and give their results again.
//
// An error leaves the order as it stands, to be gone on with: the card may be charged, and
// the stock is reserved for it.
func (s *Shop) place(ctx context.Context, op *steps.Op, o Order, user string, f faults) (answer, error) {
	_, err := steps.StepTx(ctx, op, s.store, "reserve", func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
		return struct{}{}, reserve(ctx, tx, o)
	})
	if errors.Is(err, errSoldOut) {
		return refuse(http.StatusConflict, "there are not enough of this item: nothing was charged"), nil
	}
	if err := s.after(ctx, "reserve", f, err); err != nil {
		return answer{}, err
	}

	charge, err := steps.Step(ctx, op, "charge", func(ctx context.Context, _ steps.StepInfo) (charge, error) {
		c, err := s.charge(ctx, o, f)
		return c, s.after(ctx, "charging", f, err)
	})
	if err := s.after(ctx, "charge", f, err); err != nil {
		return answer{}, err
	}
	if charge.Declined {
		_, err := steps.StepTx(ctx, op, s.store, "give back", func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
			return struct{}{}, giveBack(ctx, tx, o)
		})
		return refuse(http.StatusPaymentRequired, "the card was declined: nothing is reserved any more"), err
	}

	_, err = steps.StepTx(ctx, op, s.store, "order", func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
		_, err := tx.ExecContext(ctx, `INSERT INTO orders (order_id, user_id, item, quantity, charge_id) VALUES (?, ?, ?, ?, ?)`,
			o.ID, user, o.Item, o.Quantity, charge.ID)
		return struct{}{}, err
	})
	if err := s.after(ctx, "order", f, err); err != nil {
		return answer{}, err
	}

	_, err = steps.StepTx(ctx, op, s.store, "receipt", func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
		_, err := tx.ExecContext(ctx, `INSERT INTO receipts (order_id) VALUES (?)`, o.ID)
		return struct{}{}, err
	})
	if err := s.after(ctx, "receipt", f, err); err != nil {
		return answer{}, err
	}
	return newAnswer(http.StatusCreated, "/orders/"+o.ID, Placed{Order: o, ChargeID: charge.ID, Status: "completed"}), nil
}

// keptRequest is what Recover needs to ask for the order again. The caller
// was authenticated; no credentials are kept.
func keptRequest(r *http.Request, body []byte) steps.Request {
	kept := steps.Request{Name: requestName, Method: r.Method, Path: "/orders", Header: http.Header{}, Body: bytes.Clone(body)}
	for _, name := range []string{"Idempotency-Key", "Content-Type", UserHeader} {
		if v := r.Header.Values(name); len(v) > 0 {
			kept.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
	return kept
}
