package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ibid-go/ibid"
)

type txKey struct{}

// Tx returns the transaction that the work of ctx runs in; false outside of
// transactional mode. The work neither commits nor rolls it back: both are the
// engine's, as is the savepoint "ibid".
func Tx(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}

// Do is ibid.Do in transactional mode: fn runs inside a transaction of the
// engine's store, and what it writes there is committed together with the record
// of its result. See ibid.TxStore for what follows an error of fn.
//
//	receipt, _, err := sqlstore.Do(ctx, engine, call, func(ctx context.Context, tx *sql.Tx) (Receipt, error) {
//		_, err := tx.ExecContext(ctx, "INSERT INTO payment (payer, amount) VALUES (?, ?)", payer, amount)
//		return Receipt{Amount: amount}, err
//	})
//
// ErrInvalid reports an engine whose store has no such transactions. Call.Tx may
// name another store of the same database instead.
func Do[T any](ctx context.Context, e *ibid.Engine, call ibid.Call, fn func(context.Context, *sql.Tx) (T, error)) (T, ibid.Outcome, error) {
	if call.Tx == nil {
		store, ok := ibid.As[ibid.TxStore](e.Store())
		if !ok {
			return *new(T), ibid.Outcome{}, fmt.Errorf("%w: sqlstore.Do: the engine's store has no transactions", ibid.ErrInvalid)
		}
		call.Tx = store
	}
	return ibid.Do(ctx, e, call, func(ctx context.Context) (T, error) {
		tx, ok := Tx(ctx)
		if !ok {
			return *new(T), fmt.Errorf("%w: sqlstore.Do: the transaction is not one of database/sql", ibid.ErrInvalid)
		}
		return fn(ctx, tx)
	})
}
