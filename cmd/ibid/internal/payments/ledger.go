package payments

import (
	"context"
	"fmt"
)

// Charge is one charge in the ledger.
type Charge struct {
	PaymentID string `json:"payment_id"`
	OrderID   string `json:"order_id"`
	UserID    string `json:"user_id"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}

// Charge charges p: this is the effect that must not happen twice, and nothing
// here keeps it from doing so.
func (b *Book) Charge(ctx context.Context, p Payment) error {
	_, err := b.db.ExecContext(ctx, `INSERT INTO charges (charge_key, payment_id, order_id, user_id, amount, currency) VALUES (?, ?, ?, ?, ?, ?)`,
		p.chargeKey, p.ID, p.OrderID, p.user, p.Amount, p.Currency)
	if err != nil {
		return fmt.Errorf("charge: %w", err)
	}
	return nil
}

// Charges returns the charges of an order, of all users, the oldest first. An
// empty order returns those of all orders.
func (b *Book) Charges(ctx context.Context, order string) ([]Charge, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT payment_id, order_id, user_id, amount, currency FROM charges
		WHERE order_id = ? OR ? = '' ORDER BY rowid`, order, order)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer rows.Close()
	charges := []Charge{}
	for rows.Next() {
		var c Charge
		if err := rows.Scan(&c.PaymentID, &c.OrderID, &c.UserID, &c.Amount, &c.Currency); err != nil {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
		charges = append(charges, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return charges, nil
}

// Charged returns the payment that was charged under chargeKey, or ErrNotFound.
// It is what a provider answers who is asked for a charge by its key.
func (b *Book) Charged(ctx context.Context, chargeKey string) (Payment, error) {
	var id string
	err := b.db.QueryRowContext(ctx, `SELECT payment_id FROM charges WHERE charge_key = ? LIMIT 1`, chargeKey).Scan(&id)
	if err != nil {
		return Payment{}, found("read the ledger", err)
	}
	return b.payment(ctx, "payment_id = ?", id)
}
