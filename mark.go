package ibid

import (
	"context"
	"fmt"
)

// Mark is an operation that is claimed and completed in one step, as part of a
// transaction of the caller's: the transactional inbox. The mark and what else
// the transaction writes become true together, or not at all.
type Mark struct {
	Key    Digest
	Claim  Claim
	Result []byte // sealed
	Keep   Keep
}

// Marker is a store that can mark in a transaction of type TX: *sql.Tx, pgx.Tx.
type Marker[TX any] interface {
	// MarkTx claims and completes each key for its mark, where Begin would grant
	// the claim, and returns what stands at each key then. The mark of a key
	// was written exactly when the record is Completed under its token. A
	// transaction that has marked a key and not yet ended makes others wait, or
	// fail with an error that is ErrTxAgain. After any error tx must be rolled back.
	MarkTx(ctx context.Context, tx TX, marks []Mark) ([]Record, error)
}

// Mark returns what a Marker writes for call, with result as its result. Each
// call of Mark is an attempt of its own.
func (e *Engine) Mark(call Call, result []byte) (Mark, error) {
	op, err := e.operation(call, nil)
	if err != nil {
		return Mark{}, err
	}
	if !e.gate.enter() {
		return Mark{}, ErrDraining
	}
	defer e.gate.leave()
	a := attempt{op: op}
	return Mark{Key: op.digest, Claim: e.claim(&op), Result: e.sealer.seal(op.digest, kindValue, result), Keep: a.keep()}, nil
}

// Marked says what became of mark, given the record that MarkTx returned: nil
// when it was written; otherwise what Do would answer. ErrDuplicate reports a
// result that stands already.
func (e *Engine) Marked(mark Mark, rec Record) error {
	if rec.State == Completed && rec.Token == mark.Claim.Token {
		return nil
	}
	op := operation{digest: mark.Key, fingerprint: mark.Claim.Fingerprint, policy: e.opts.Policy}
	op.policy.MaxAttempts = mark.Claim.MaxAttempts
	_, _, _, err := e.read(&op, rec)
	if err == nil {
		err = ErrDuplicate
	}
	return err
}

// Committed looks mark up: true when the transaction that wrote it was
// committed, for a COMMIT whose outcome is unknown. Ask once that transaction
// has ended: as long as the server still works on it, nothing shows.
func (e *Engine) Committed(ctx context.Context, mark Mark) (bool, error) {
	rec, err := e.look(ctx, mark.Key)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return (rec.State == Completed || rec.State == Expired) && rec.Token == mark.Claim.Token, nil
}
