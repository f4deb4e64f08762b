package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// Postgres is a store in a PostgreSQL database, through database/sql and any
// driver. It is safe for concurrent use, by any number of processes on any number of hosts.
// The table is the one of package pgxstore: both may use it at once.
//
// It is also an ibid.TxStore, ibid.Sweeper, ibid.Inspector, ibid.Checkpointer, ibid.Notifier
// (within this process) and ibid.Describer. Package pgxstore, for those who use
// pgx, also shares commits under load and wakes the waiters of other processes.
type Postgres struct {
	db      *sql.DB
	queries *pgsql.Queries
	watch   watchers
}

// PostgresOptions of OpenPostgres. A nil *PostgresOptions, and the zero value of
// every field, is the default.
type PostgresOptions struct {
	// Table is the name of the table, and how the names of its index, its
	// functions and its schema table begin: up to 48 lower-case letters, digits
	// and underscores, after a schema and a dot if need be. Default
	// "ibid_record".
	Table string
	// NoMigrate lets OpenPostgres fail, instead of making the table, where it
	// does not exist. See PostgresSchema and MigratePostgres.
	NoMigrate bool
}

// OpenPostgres returns a store in the database db, which stays the caller's to
// close. It makes the table unless it is there.
//
// ErrInvalid reports a server that is a standby, a table that this program does
// not know, or an option that cannot be used.
func OpenPostgres(ctx context.Context, db *sql.DB, opts *PostgresOptions) (*Postgres, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: db is nil", ibid.ErrInvalid)
	}
	var o PostgresOptions
	if opts != nil {
		o = *opts
	}
	q, err := pgsql.NewQueries(o.Table)
	if err != nil {
		return nil, err
	}
	there, err := q.Check(ctx, runner{db})
	if err == nil && !there {
		if o.NoMigrate {
			return nil, q.Missing()
		}
		err = inTransaction(ctx, db, func(tx *sql.Tx) error { return q.Migrate(ctx, runner{tx}) })
	}
	if err != nil {
		return nil, err
	}
	return &Postgres{db: db, queries: q}, nil
}

// PostgresSchema returns the statements that make the table of that name, for
// those who keep their schema elsewhere and set NoMigrate. Running them again
// changes nothing. An empty name is the default one.
func PostgresSchema(table string) (string, error) { return pgsql.Schema(table) }

// MigratePostgres makes the table of that name unless it is there, as
// OpenPostgres does. One process at a time does; the others find it made.
func MigratePostgres(ctx context.Context, db *sql.DB, table string) error {
	q, err := pgsql.NewQueries(table)
	if err != nil {
		return err
	}
	return inTransaction(ctx, db, func(tx *sql.Tx) error { return q.Migrate(ctx, runner{tx}) })
}

func inTransaction(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // sql.ErrTxDone after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Begin implements ibid.Store.
func (s *Postgres) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	var answer ibid.Record
	if err := pgsql.Ask(ctx, runner{s.db}, s.queries.Begin(key, claim, &answer)); err != nil {
		return ibid.Record{}, err
	}
	return answer, nil
}

// Look implements ibid.Store.
func (s *Postgres) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	var answer ibid.Record
	if err := pgsql.Ask(ctx, runner{s.db}, s.queries.Look(key, &answer)); err != nil {
		return ibid.Record{}, err
	}
	return answer, nil
}

// write asks c, and wakes those of this process who wait for key.
func (s *Postgres) write(ctx context.Context, key ibid.Digest, c *pgsql.Call) error {
	err := pgsql.Ask(ctx, runner{s.db}, c)
	if err == nil {
		s.watch.wake([]ibid.Digest{key})
	}
	return err
}

// Complete implements ibid.Store. ErrTooLarge reports more than 256 MiB.
func (s *Postgres) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if len(result) > pgsql.MaxResult {
		return ibid.ErrTooLarge
	}
	return s.write(ctx, key, s.queries.Complete(key, token, result, keep))
}

// CompleteTx records what ibid.Prepare made, as part of tx, a transaction of the
// database that the store is in: the result is kept if tx commits, together
// with what else tx wrote, and not at all if it does not.
//
// After any error tx must be rolled back; ErrClaimLost reports that the claim
// no longer stands, or that the key was completed before: so a transaction that
// is run again, because its first COMMIT had no answer, does not make its
// writes twice. From CompleteTx until its end, tx makes those wait who would
// take the same key over: call it last.
//
// A driver that does not tell a COMMIT that was turned into a ROLLBACK, as
// lib/pq before 1.10 does not, must not be used with work that swallows errors.
func (s *Postgres) CompleteTx(ctx context.Context, tx *sql.Tx, c ibid.Completion) error {
	if len(c.Result) > pgsql.MaxResult {
		return ibid.ErrTooLarge
	}
	return pgsql.AskIn(ctx, runner{tx}, s.queries.CompleteTx(c))
}

// CheckpointTx keeps what ibid.PrepareSteps made, as part of tx: the step state
// is kept if tx commits, together with what else tx wrote.
func (s *Postgres) CheckpointTx(ctx context.Context, tx *sql.Tx, c ibid.Checkpoint) error {
	return pgsql.AskIn(ctx, runner{tx}, s.queries.Checkpoint(c.Key, c.Token, c.Steps))
}

// Extend implements ibid.Store.
func (s *Postgres) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	if lease > 0 {
		return pgsql.Ask(ctx, runner{s.db}, s.queries.Extend(key, token, lease))
	}
	return s.write(ctx, key, s.queries.Extend(key, token, lease))
}

// Release implements ibid.Store.
func (s *Postgres) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	return s.write(ctx, key, s.queries.Release(key, token))
}

// Checkpoint implements ibid.Checkpointer.
func (s *Postgres) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, steps []byte) error {
	return pgsql.Ask(ctx, runner{s.db}, s.queries.Checkpoint(key, token, steps))
}

// Watch implements ibid.Notifier for writes of this store in this process, and
// not for those of others, nor for CompleteTx, whose commit is the caller's.
func (s *Postgres) Watch(_ context.Context, key ibid.Digest) (<-chan struct{}, func(), error) {
	changed, stop := s.watch.add(key)
	return changed, stop, nil
}

// Sweep implements ibid.Sweeper. It deletes a thousand records at a time, each
// lot in a transaction of its own, and passes over those that others have
// locked: several processes may sweep at once.
func (s *Postgres) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	return s.queries.Sweep(ctx, runner{s.db}, limit)
}

// List implements ibid.Inspector. A damaged record is left out.
func (s *Postgres) List(ctx context.Context, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	return s.queries.List(ctx, runner{s.db}, filter, after, limit)
}

// Forget implements ibid.Inspector.
func (s *Postgres) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	return s.write(ctx, key, s.queries.Forget(key, token, window))
}

// Describe implements ibid.Describer. It reads the settings that are in force
// for a connection of the database's pool.
func (s *Postgres) Describe(ctx context.Context) (ibid.Description, error) {
	return s.queries.Describe(ctx, runner{s.db})
}
