package orders

import (
	"context"
	"database/sql"
	"errors"
)

// errSoldOut reports that less is left of the item than is asked for.
var errSoldOut = errors.New("sold out")

// reserve takes the items from the stock, in the transaction of the step. The
// condition is part of the statement that writes: a reading before it could be old
// by then, and two orders would sell the last cup.
func reserve(ctx context.Context, tx *sql.Tx, o Order) error {
	var left int64
	err := tx.QueryRowContext(ctx, `UPDATE stock SET quantity = quantity - ? WHERE item = ? AND quantity >= ? RETURNING quantity`,
		o.Quantity, o.Item, o.Quantity).Scan(&left)
	if errors.Is(err, sql.ErrNoRows) {
		return errSoldOut
	}
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO reservations (order_id, item, quantity) VALUES (?, ?, ?)`, o.ID, o.Item, o.Quantity)
	return err
}

// giveBack is the reverse of reserve: a step of its own, and not a rollback.
func giveBack(ctx context.Context, tx *sql.Tx, o Order) error {
	if _, err := tx.ExecContext(ctx, `UPDATE stock SET quantity = quantity + ? WHERE item = ?`, o.Quantity, o.Item); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM reservations WHERE order_id = ? AND item = ?`, o.ID, o.Item)
	return err
}
