// Package steps runs operations of several parts: charge the card, write the
// order, send the receipt. Each part that finished is kept under the operation's
// key, so that the attempt after a crash goes on where the last one stopped, and
// not from the beginning.
//
//	receipt, _, err := steps.Run(ctx, engine, call, func(ctx context.Context, op *steps.Op) (Receipt, error) {
//		charge, err := steps.Step(ctx, op, "charge", func(ctx context.Context, info steps.StepInfo) (Charge, error) {
//			return bank.Charge(ctx, info.Key, order.Amount)
//		})
//		if err != nil {
//			return Receipt{}, err
//		}
//		number, err := steps.StepTx(ctx, op, store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) {
//			return insertOrder(ctx, tx, charge.ID)
//		})
//		return Receipt{Charge: charge.ID, Order: number}, err
//	})
//
// # What happens to a step
//
//	             mark kept              result kept
//	(not begun) ───────────▶ maybe done ────────────▶ finished
//	                           │     ▲                   │
//	                           └─────┘                   ▼
//	                      a later attempt       a later attempt skips it,
//	                      runs it, or asks      and gets its result
//
// A step of StepTx has no state in between: its writes, its result and the check
// that the claim still stands are one transaction.
//
// # Guarantees
//
//   - A step whose result was kept never runs again within the window, and every
//     later attempt gets that result.
//   - A step that was begun and whose result was not kept is maybe done. [Step]
//     runs it again with the same derived key and says so; [AtMostOnce]
//     asks instead.
//   - A step begins only after the store has acknowledged its mark, under the claim:
//     an attempt that was taken over begins no step.
//   - Nothing is guessed of a state that cannot be read: ibid.ErrDamaged, and
//     no step runs.
//
// # What it does not do
//
// It undoes nothing: what must be taken back is a step of its own. It makes no
// effect elsewhere happen exactly once; a downstream that deduplicates StepInfo.Key
// does. Between the steps fn runs anew in every attempt: it must
// reach the same steps, in any order, from the same input. Recover, which goes on with
// operations that nobody asks for again, is a call of the program and no goroutine of this
// package.
//
// # Errors
//
// Those of ibid.Do, and [ErrChanged]. The error of a step is what fn makes of it.
// A plain error releases the key: whoever asks next goes on behind the steps that
// finished.
package steps
