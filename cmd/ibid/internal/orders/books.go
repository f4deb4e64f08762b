package orders

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
)

// Books is the answer of GET /books?order_id=…&item=…&user=…: how often everything
// happened for an order, and what is left.
type Books struct {
	Reserved int   `json:"reserved"` // reservations of the order
	Orders   int   `json:"orders"`
	Receipts int   `json:"receipts"`
	Entries  int   `json:"entries"` // payments of the order from wallets
	Stock    int64 `json:"stock"`   // of the item; 0 when it is not known
	Balance  int64 `json:"balance"` // of the user's wallet; 0 without one
	Version  int64 `json:"wallet_version"`
}

func (s *Shop) getBooks(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	order, item, user := q.Get("order_id"), q.Get("item"), q.Get("user")
	var b Books
	var err error
	for _, read := range []struct {
		query string
		arg   string
		into  []any
	}{
		{`SELECT COUNT(*) FROM reservations WHERE order_id = ?`, order, []any{&b.Reserved}},
		{`SELECT COUNT(*) FROM orders WHERE order_id = ?`, order, []any{&b.Orders}},
		{`SELECT COUNT(*) FROM receipts WHERE order_id = ?`, order, []any{&b.Receipts}},
		{`SELECT COUNT(*) FROM wallet_entries WHERE order_id = ?`, order, []any{&b.Entries}},
		{`SELECT quantity FROM stock WHERE item = ?`, item, []any{&b.Stock}},
		{`SELECT balance, version FROM wallets WHERE user_id = ?`, user, []any{&b.Balance, &b.Version}},
	} {
		if e := s.db.QueryRowContext(r.Context(), read.query, read.arg).Scan(read.into...); e != nil && !errors.Is(e, sql.ErrNoRows) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		refuse(http.StatusInternalServerError, err.Error()).write(w)
		return
	}
	newAnswer(http.StatusOK, "", b).write(w)
}

// putStock and putWallet say how much there is: sent twice, they say the same.

func (s *Shop) putStock(w http.ResponseWriter, r *http.Request) {
	s.put(w, r, `INSERT INTO stock (item, quantity) VALUES (?1, ?2) ON CONFLICT (item) DO UPDATE SET quantity = ?2`, r.PathValue("item"))
}

func (s *Shop) putWallet(w http.ResponseWriter, r *http.Request) {
	s.put(w, r, `INSERT INTO wallets (user_id, balance, version) VALUES (?1, ?2, 1)
		ON CONFLICT (user_id) DO UPDATE SET balance = ?2, version = version + 1`, r.PathValue("user"))
}

func (s *Shop) put(w http.ResponseWriter, r *http.Request, query, name string) {
	var n int64
	if err := json.NewDecoder(r.Body).Decode(&n); err != nil || n < 0 {
		refuse(http.StatusBadRequest, "the body must be a whole number, 0 or more").write(w)
		return
	}
	if _, err := s.db.ExecContext(r.Context(), query, name, n); err != nil {
		refuse(http.StatusInternalServerError, err.Error()).write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
