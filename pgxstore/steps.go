package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// CheckpointTx keeps what ibid.PrepareSteps made, as part of tx: the step state
// is kept if tx commits, together with what else tx wrote. Everything said of
// CompleteTx holds here too.
func (s *Store) CheckpointTx(ctx context.Context, tx pgx.Tx, c ibid.Checkpoint) error {
	return pgsql.AskIn(ctx, driver{tx}, s.queries.Checkpoint(c.Key, c.Token, c.Steps))
}

// endTimeout bounds what is done after the work, whatever became of its caller.
const endTimeout = 10 * time.Second

// InTx is what steps.StepTx asks for: it runs work in a transaction, writes the
// checkpoint that work returns, and commits. Work finds the transaction in its
// context too.
func (s *Store) InTx(ctx context.Context, work func(context.Context, pgx.Tx) (ibid.Checkpoint, error)) error {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { // also when the work panics; nothing after a commit
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		_ = tx.Rollback(detached)
	}()
	c, err := work(context.WithValue(ctx, txKey{}, pgx.Tx(workTx{tx})), workTx{tx})
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err == nil && tx.Conn().PgConn().TxStatus() == 'I' {
		err = errPoisoned
	}
	if err == nil {
		err = s.CheckpointTx(detached, tx, c)
	}
	if err != nil {
		return again(err)
	}
	err = tx.Commit(detached)
	var said *pgconn.PgError
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &said) && said.SeverityUnlocalized == "ERROR" {
		return again(err)
	}
	return fmt.Errorf("%w: %w", ibid.ErrCommitUnknown, err)
}

// again marks a conflict that ended the transaction.
func again(err error) error {
	if pgsql.Conflict(err) {
		return fmt.Errorf("%w: %w", ibid.ErrTxAgain, err)
	}
	return err
}
