package pgxstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ibid-go/ibid"
)

type txKey struct{}

// Tx returns the transaction that the work of ctx runs in; false outside of
// transactional mode. The work neither commits nor rolls it back: both are the
// engine's. Transactions that it begins inside are its own.
func Tx(ctx context.Context) (pgx.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	return tx, ok
}

// Do is ibid.Do in transactional mode: fn runs inside a transaction of the
// engine's store, and what it writes there is committed together with the record
// of its result. See ibid.TxStore for what follows an error of fn.
//
//	receipt, _, err := pgxstore.Do(ctx, engine, call, func(ctx context.Context, tx pgx.Tx) (Receipt, error) {
//		_, err := tx.Exec(ctx, "INSERT INTO payment (payer, amount) VALUES ($1, $2)", payer, amount)
//		return Receipt{Amount: amount}, err
//	})
//
// ErrInvalid reports an engine whose store is none of this package. Call.Tx may
// name another store instead.
func Do[T any](ctx context.Context, e *ibid.Engine, call ibid.Call, fn func(context.Context, pgx.Tx) (T, error)) (T, ibid.Outcome, error) {
	if call.Tx == nil {
		store, ok := ibid.As[ibid.TxStore](e.Store())
		if !ok {
			return *new(T), ibid.Outcome{}, fmt.Errorf("%w: pgxstore.Do: the engine's store has no transactions", ibid.ErrInvalid)
		}
		call.Tx = store
	}
	return ibid.Do(ctx, e, call, func(ctx context.Context) (T, error) {
		tx, ok := Tx(ctx)
		if !ok {
			return *new(T), fmt.Errorf("%w: pgxstore.Do: the transaction is not one of pgx", ibid.ErrInvalid)
		}
		return fn(ctx, tx)
	})
}

// workTx is the transaction as the work has it.
type workTx struct{ pgx.Tx }

// Commit is not the work's.
func (workTx) Commit(context.Context) error { return errNotYours }

// Rollback is not the work's: it returns an error instead, or calls ibid.UndoWrites.
func (workTx) Rollback(context.Context) error { return errNotYours }

var errNotYours = fmt.Errorf("%w: pgxstore: the engine ends the transaction: return an error, or call ibid.UndoWrites", ibid.ErrInvalid)
