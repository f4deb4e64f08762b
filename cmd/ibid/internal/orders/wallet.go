package orders

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ibid-go/ibid/sqlstore"
)

// WalletPayment pays an order from the caller's wallet. All of its effect is in this
// database, so it runs in transactional mode: no lease, nothing unknown.
type WalletPayment struct {
	OrderID string `json:"order_id"`
	Amount  int64  `json:"amount"` // in the smallest unit of the currency
	// Version is that of the wallet that the caller has seen; 0 accepts any.
	Version int64 `json:"wallet_version,omitempty"`
}

// Paid is the answer to a wallet payment.
type Paid struct {
	ID      string `json:"payment_id"`
	OrderID string `json:"order_id"`
	Balance int64  `json:"balance"`
	Version int64  `json:"wallet_version"`
}

// walletMethod is the second half of a payment's natural key.
const walletMethod = "wallet"

var (
	errPaid  = errors.New("the order is paid")
	errStale = errors.New("the wallet has changed")
	errPoor  = errors.New("the balance does not suffice")
)

// postWalletPayment writes in the transaction of the middleware, which commits it
// together with the answer; a refusal is recorded too, and takes back what was written.
func (s *Shop) postWalletPayment(w http.ResponseWriter, r *http.Request) {
	var p WalletPayment
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || p.OrderID == "" || p.Amount <= 0 {
		refuse(http.StatusBadRequest, "a wallet payment names an order and an amount above 0").write(w)
		return
	}
	ctx := r.Context()
	tx, ok := sqlstore.Tx(ctx)
	if !ok {
		refuse(http.StatusInternalServerError, "there is no transaction").write(w)
		return
	}
	paid, err := pay(ctx, tx, p, r.Header.Get(UserHeader))
	err = s.after(ctx, "wallet", faultsOf(r.Header), err)
	switch {
	case errors.Is(err, errPaid):
		a := refuse(http.StatusConflict, "the order was paid from a wallet before, see Location")
		a.header.Set("Location", "/wallet/payments/"+paid.ID)
		a.write(w)
	case errors.Is(err, errStale):
		refuse(http.StatusPreconditionFailed, "the wallet has changed since wallet_version").write(w)
	case errors.Is(err, errPoor):
		refuse(http.StatusPaymentRequired, err.Error()).write(w)
	case err != nil:
		refuse(http.StatusInternalServerError, err.Error()).write(w)
	default:
		newAnswer(http.StatusCreated, "/wallet/payments/"+paid.ID, paid).write(w)
	}
}

// pay moves the money. With errPaid comes the payment that is there.
func pay(ctx context.Context, tx *sql.Tx, p WalletPayment, user string) (Paid, error) {
	paid := Paid{OrderID: p.OrderID}
	// The natural key decides: a row comes back only to the first payment of the order by wallet,
	// whatever idempotency key it came with.
	err := tx.QueryRowContext(ctx, `INSERT INTO wallet_payments (payment_id, order_id, method) VALUES (?, ?, ?)
		ON CONFLICT (order_id, method) DO NOTHING RETURNING payment_id`, "wp_"+rand.Text()[:12], p.OrderID, walletMethod).Scan(&paid.ID)
	if errors.Is(err, sql.ErrNoRows) {
		err := tx.QueryRowContext(ctx, `SELECT payment_id FROM wallet_payments WHERE order_id = ? AND method = ?`, p.OrderID, walletMethod).Scan(&paid.ID)
		return paid, errors.Join(errPaid, err)
	}
	if err != nil {
		return paid, err
	}
	// The version is compared by the statement that writes; no row is left of a wallet that changed.
	var balance, version int64
	switch err := tx.QueryRowContext(ctx, `SELECT balance, version FROM wallets WHERE user_id = ?`, user).Scan(&balance, &version); {
	case errors.Is(err, sql.ErrNoRows) || err == nil && balance < p.Amount:
		return paid, errPoor
	case err != nil:
		return paid, err
	}
	if p.Version != 0 {
		version = p.Version // what the caller decided on
	}
	err = tx.QueryRowContext(ctx, `UPDATE wallets SET balance = balance - ?, version = version + 1
		WHERE user_id = ? AND version = ? RETURNING balance, version`, p.Amount, user, version).Scan(&paid.Balance, &paid.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return paid, errStale
	}
	if err != nil {
		return paid, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO wallet_entries (order_id, user_id, amount) VALUES (?, ?, ?)`, p.OrderID, user, p.Amount)
	return paid, err
}
