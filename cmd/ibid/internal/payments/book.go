package payments

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
)

// Book is where payments, refunds and charges are kept: one SQLite file, which
// outlives the process however it ends. Charges stand for the provider's own
// books: no constraint of any kind guards them.
type Book struct {
	db *sql.DB
}

// BookOptions of a Book. Nil is the default.
type BookOptions struct {
	// NoConstraint leaves out the unique constraints on payments and refunds, so
	// that nothing but the middleware stands between a duplicate and the ledger.
	// Default false. It must be the same every time a file is opened.
	NoConstraint bool
}

// Errors of a Book.
var (
	// ErrNotFound reports that nothing is kept under the id, or not for this user.
	ErrNotFound = errors.New("not found")
	// ErrExists reports that the operation's payment or refund was already
	// settled, or is another attempt's to settle: the unique constraint held.
	ErrExists = errors.New("already there")
	// ErrTooMuch reports a refund of more than is left of the payment.
	ErrTooMuch = errors.New("more than is left of the payment")
)

// One row per payment. The charge key comes from ibid.DerivedKey, so that every
// attempt of one operation finds the same row.
//
// charges and its two indexes are without any constraint: what was charged twice
// is counted twice.
const schema = `
CREATE TABLE IF NOT EXISTS payments (
	payment_id TEXT PRIMARY KEY,
	charge_key TEXT NOT NULL,
	order_id   TEXT NOT NULL,
	user_id    TEXT NOT NULL,
	amount     INTEGER NOT NULL,
	currency   TEXT NOT NULL,
	status     TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS refunds (
	refund_id  TEXT PRIMARY KEY,
	refund_key TEXT NOT NULL,
	payment_id TEXT NOT NULL,
	user_id    TEXT NOT NULL,
	amount     INTEGER NOT NULL,
	currency   TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS refunds_payment ON refunds (payment_id);
CREATE TABLE IF NOT EXISTS charges (
	charge_key TEXT NOT NULL,
	payment_id TEXT NOT NULL,
	order_id   TEXT NOT NULL,
	user_id    TEXT NOT NULL,
	amount     INTEGER NOT NULL,
	currency   TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS charges_key ON charges (charge_key);
CREATE INDEX IF NOT EXISTS charges_order ON charges (order_id);
`

const constraints = `
CREATE UNIQUE INDEX IF NOT EXISTS payments_charge_key ON payments (charge_key);
CREATE UNIQUE INDEX IF NOT EXISTS refunds_refund_key ON refunds (refund_key);
`

// OpenBook opens the book in the file at path, and makes it if there is none.
//
// A commit reaches the operating system before it returns, and so survives the
// process. It does not wait for the disk: the ledger of a demonstration need
// not survive the machine.
func OpenBook(ctx context.Context, path string, opts *BookOptions) (*Book, error) {
	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate"
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open the book %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // one writer: a second connection would only wait for it
	statements := schema
	if opts == nil || !opts.NoConstraint {
		statements += constraints
	}
	if _, err := db.ExecContext(ctx, statements); err != nil {
		return nil, fmt.Errorf("open the book %s: %w", path, errors.Join(err, db.Close()))
	}
	return &Book{db: db}, nil
}

// Close closes the book.
func (b *Book) Close() error { return b.db.Close() }

// Payment is one payment.
type Payment struct {
	ID       string `json:"payment_id"`
	OrderID  string `json:"order_id"`
	Amount   int64  `json:"amount"` // in the smallest unit of the currency
	Currency string `json:"currency"`
	Status   string `json:"status"` // "pending", "guarded" or "completed"

	user      string
	chargeKey string
}

// Guards are the constraints that payments and refunds are protected by while
// the store of the keys is away, as they are named in an answer.
const (
	PaymentGuard = "payments_charge_key"
	RefundGuard  = "refunds_refund_key"
)

// Reserve writes a payment down as pending, before it is charged. A pending
// payment of the same charge key, left by an earlier attempt, is returned
// instead; any other is ErrExists, with the payment that is there.
//
// Guarded, nothing but the unique constraint stands between two attempts: only
// the one that inserts the row may charge. Its row says "guarded" until it is
// settled, so that no later attempt takes it for one that is free to charge.
func (b *Book) Reserve(ctx context.Context, p Payment, guarded bool) (Payment, error) {
	p.ID, p.Status = newID("pay_"), "pending"
	if guarded {
		p.Status = "guarded"
	}
	res, err := b.db.ExecContext(ctx, `INSERT INTO payments (payment_id, charge_key, order_id, user_id, amount, currency, status)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, p.ID, p.chargeKey, p.OrderID, p.user, p.Amount, p.Currency, p.Status)
	if err != nil {
		return p, fmt.Errorf("reserve the payment: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return p, err
	}
	there, err := b.payment(ctx, "charge_key = ?", p.chargeKey)
	if err == nil && (guarded || there.Status != "pending") {
		err = ErrExists
	}
	return there, err
}

// Settle marks a payment as completed.
func (b *Book) Settle(ctx context.Context, id string) error {
	if _, err := b.db.ExecContext(ctx, `UPDATE payments SET status = 'completed' WHERE payment_id = ?`, id); err != nil {
		return fmt.Errorf("settle the payment: %w", err)
	}
	return nil
}

// Payment returns a payment of user, or ErrNotFound.
func (b *Book) Payment(ctx context.Context, id, user string) (Payment, error) {
	return b.payment(ctx, "payment_id = ? AND user_id = ?", id, user)
}

func (b *Book) payment(ctx context.Context, where string, args ...any) (Payment, error) {
	var p Payment
	err := b.db.QueryRowContext(ctx, `SELECT payment_id, charge_key, order_id, user_id, amount, currency, status
		FROM payments WHERE `+where, args...).
		Scan(&p.ID, &p.chargeKey, &p.OrderID, &p.user, &p.Amount, &p.Currency, &p.Status)
	return p, found("read the payment", err)
}

// Refund is one refund.
type Refund struct {
	ID        string `json:"refund_id"`
	PaymentID string `json:"payment_id"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Status    string `json:"status"` // always "completed"

	user      string
	refundKey string
}

// AddRefund writes a refund down, unless less than its amount is left of the
// payment (ErrTooMuch), user has no such payment (ErrNotFound), or the refund key was used
// (ErrExists, with the refund that is there).
func (b *Book) AddRefund(ctx context.Context, r Refund) (Refund, error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return r, fmt.Errorf("refund: %w", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	var left int64
	err = tx.QueryRowContext(ctx, `SELECT p.currency, p.amount - COALESCE((SELECT SUM(r.amount) FROM refunds r WHERE r.payment_id = p.payment_id), 0)
		FROM payments p WHERE p.payment_id = ? AND p.user_id = ? AND p.status = 'completed'`, r.PaymentID, r.user).Scan(&r.Currency, &left)
	if err != nil {
		return r, found("refund", err)
	}
	r.ID, r.Status = newID("ref_"), "completed"
	res, err := tx.ExecContext(ctx, `INSERT INTO refunds (refund_id, refund_key, payment_id, user_id, amount, currency)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, r.ID, r.refundKey, r.PaymentID, r.user, r.Amount, r.Currency)
	if err != nil {
		return r, fmt.Errorf("refund: %w", err)
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return r, fmt.Errorf("refund: %w", err)
	case n == 0:
		there, err := refund(ctx, tx, "refund_key = ?", r.refundKey)
		if err == nil {
			err = ErrExists
		}
		return there, err
	case r.Amount > left:
		return r, ErrTooMuch
	}
	if err := tx.Commit(); err != nil {
		return r, fmt.Errorf("refund: %w", err)
	}
	return r, nil
}

// Refund returns a refund of user, or ErrNotFound.
func (b *Book) Refund(ctx context.Context, id, user string) (Refund, error) {
	return refund(ctx, b.db, "refund_id = ? AND user_id = ?", id, user)
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func refund(ctx context.Context, q querier, where string, args ...any) (Refund, error) {
	r := Refund{Status: "completed"}
	err := q.QueryRowContext(ctx, `SELECT refund_id, refund_key, payment_id, user_id, amount, currency FROM refunds WHERE `+where, args...).
		Scan(&r.ID, &r.refundKey, &r.PaymentID, &r.user, &r.Amount, &r.Currency)
	return r, found("read the refund", err)
}

// newID returns 60 random bits after a prefix: enough for a demonstration.
func newID(prefix string) string { return prefix + rand.Text()[:12] }

// found wraps err, and makes ErrNotFound of a missing row.
func found(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	}
	return fmt.Errorf("%s: %w", what, err)
}
