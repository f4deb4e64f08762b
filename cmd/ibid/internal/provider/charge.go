package provider

import (
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"net/http"
	"time"

	"github.com/ibid-go/ibid/sqlstore"
)

// FaultHeader is the header of a request that switches a fault on. It is no part of
// what is asked for: a retry may leave it out.
const FaultHeader = "Demo-Provider"

// Faults of FaultHeader.
const (
	Slow    = "slow"    // the first request takes SlowTime before it charges
	Lose    = "lose"    // the charge is made, and its first answer is cut off
	Decline = "decline" // the card is declined
)

// SlowTime is longer than a careful caller waits for one answer.
const SlowTime = time.Second

// Charge is one charge.
type Charge struct {
	ID       string `json:"charge_id"`
	OrderID  string `json:"order_id"`
	Amount   int64  `json:"amount"` // in the smallest unit of the currency
	Currency string `json:"currency"`
}

// Ledger is the answer of GET /charges.
type Ledger struct {
	Count   int      `json:"count"`
	Charges []Charge `json:"charges"`
}

// charge is the work: one row, in the transaction that the middleware began.
func charge(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var c Charge
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.OrderID == "" || c.Amount <= 0 || c.Currency == "" {
		http.Error(w, "a charge names an order, an amount above 0 and a currency", http.StatusBadRequest)
		return
	}
	switch r.Header.Get(FaultHeader) {
	case Decline:
		http.Error(w, "the card is declined", http.StatusPaymentRequired)
		return
	case Slow:
		select {
		case <-time.After(SlowTime):
		case <-ctx.Done():
		}
	}
	tx, ok := sqlstore.Tx(ctx)
	if !ok {
		http.Error(w, "there is no transaction", http.StatusInternalServerError)
		return
	}
	c.ID = "ch_" + rand.Text()[:12]
	if _, err := tx.ExecContext(ctx, `INSERT INTO charges (charge_id, order_id, amount, currency) VALUES (?, ?, ?, ?)`,
		c.ID, c.OrderID, c.Amount, c.Currency); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusCreated, c)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller that is gone reads nothing
}

// list answers with the charges of an order, of all callers.
func list(w http.ResponseWriter, r *http.Request, db *sql.DB) {
	rows, err := db.QueryContext(r.Context(), `SELECT charge_id, order_id, amount, currency FROM charges WHERE order_id = ? ORDER BY rowid`, r.URL.Query().Get("order_id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer rows.Close()
	charges := []Charge{}
	for rows.Next() {
		var c Charge
		if err = rows.Scan(&c.ID, &c.OrderID, &c.Amount, &c.Currency); err != nil {
			break
		}
		charges = append(charges, c)
	}
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, Ledger{len(charges), charges})
}

// losing cuts the connection in place of a first answer, where the request asks
// for it. The middleware inside has then committed the charge.
func losing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(FaultHeader) == Lose {
			w = loser{w}
		}
		h.ServeHTTP(w, r)
	})
}

type loser struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (l loser) WriteHeader(status int) {
	if status < 300 && l.Header().Get("Idempotent-Replayed") == "" {
		panic(http.ErrAbortHandler)
	}
	l.ResponseWriter.WriteHeader(status)
}
