package pgxstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/pgsql"
)

// Options of a Store. A nil *Options, and the zero value of every field, is the
// default.
type Options struct {
	// Table is the name of the table, and how the names of its index and of
	// its schema table begin: up to 48 lower-case letters, digits and
	// underscores, after a schema and a dot if need be. Default "ibid_record".
	Table string
	// NoMigrate lets New fail, instead of making the table, where it does not
	// exist. See Schema and Migrate.
	NoMigrate bool
	// BatchFrom is how many claims and completions of this process go their own
	// way at the same time. While as many are under way, further ones wait for one of
	// them to end, and then share a round trip and a commit. Default 4;
	// negative shares none.
	BatchFrom int
	// MaxBatch is how many of them one commit may carry. Default 128; negative is 1.
	MaxBatch int
}

// Store is an ibid.Store in a table of a PostgreSQL database. It is safe for
// concurrent use, by any number of processes on any number of hosts.
//
// It is also an ibid.TxStore, ibid.Notifier, ibid.Sweeper, ibid.Inspector, ibid.Checkpointer
// and ibid.Describer.
type Store struct {
	pool     *pgxpool.Pool
	queries  *pgsql.Queries
	batches  batches
	listener listener
	clock    serverClock
	onlyNew  sync.Map // marks in one statement → its text
}

// New returns a store in the database of pool, which stays the caller's to
// close, after the store. It makes the table unless it is there.
//
// ErrInvalid reports a server that is a standby, a table that this program does
// not know, or an option that cannot be used.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("%w: pool is nil", ibid.ErrInvalid)
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	q, err := pgsql.NewQueries(o.Table)
	if err != nil {
		return nil, err
	}
	there, err := q.Check(ctx, driver{pool})
	if err == nil && !there {
		if o.NoMigrate {
			return nil, q.Missing()
		}
		err = migrate(ctx, pool, q)
	}
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, queries: q}
	s.batches.from, s.batches.most = o.BatchFrom, max(o.MaxBatch, 1)
	if o.BatchFrom == 0 {
		s.batches.from = 4
	}
	if o.MaxBatch == 0 {
		s.batches.most = 128
	}
	s.listener.pool, s.listener.channel = pool, q.Channel()
	return s, nil
}

// Close ends the connection that wakes waiters, and waits for its goroutine.
// The store is not used afterwards. The pool stays open.
func (s *Store) Close() error {
	s.listener.close()
	return nil
}

// Schema returns the statements that make the table of that name, for those who
// keep their schema elsewhere and set NoMigrate. Running them again changes
// nothing. An empty name is the default one.
func Schema(table string) (string, error) { return pgsql.Schema(table) }

// Migrate makes the table of that name unless it is there, as New does. One
// process at a time does; the others find it made.
func Migrate(ctx context.Context, pool *pgxpool.Pool, table string) error {
	q, err := pgsql.NewQueries(table)
	if err != nil {
		return err
	}
	return migrate(ctx, pool, q)
}

func migrate(ctx context.Context, pool *pgxpool.Pool, q *pgsql.Queries) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return q.Migrate(ctx, driver{tx}) })
}

// Begin implements ibid.Store.
func (s *Store) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	var answer ibid.Record
	if err := s.write(ctx, key, s.queries.Begin(key, claim, &answer)); err != nil {
		return ibid.Record{}, err
	}
	return answer, nil
}

// Look implements ibid.Store.
func (s *Store) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	var answer ibid.Record
	if err := pgsql.Ask(ctx, driver{s.pool}, s.queries.Look(key, &answer)); err != nil {
		return ibid.Record{}, err
	}
	return answer, nil
}

// Complete implements ibid.Store. ErrTooLarge reports more than 256 MiB.
func (s *Store) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if len(result) > pgsql.MaxResult {
		return ibid.ErrTooLarge
	}
	return s.write(ctx, key, s.queries.Complete(key, token, result, keep))
}

// CompleteTx records what ibid.Prepare made, as part of tx, a transaction of the
// database that the store is in: the result is kept if tx commits, together
// with what else tx wrote, and not at all if it does not.
//
//	tx, err := pool.Begin(ctx)
//	…                               // the effect
//	c, err := ibid.Prepare(ctx, payment)
//	err = store.CompleteTx(ctx, tx, c)
//	err = tx.Commit(ctx)
//
// After any error tx must be rolled back; ErrClaimLost reports that the claim
// no longer stands, or that the key was completed before: so a transaction that is run again, because
// its first COMMIT had no answer, does not make its writes twice. A Commit that returns pgx.ErrTxCommitRollback kept nothing.
// From CompleteTx until its end, tx makes those wait who would take the same
// key over: call it last.
func (s *Store) CompleteTx(ctx context.Context, tx pgx.Tx, c ibid.Completion) error {
	if len(c.Result) > pgsql.MaxResult {
		return ibid.ErrTooLarge
	}
	return pgsql.AskIn(ctx, driver{tx}, s.queries.CompleteTx(c))
}

// Extend implements ibid.Store.
func (s *Store) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	return pgsql.Ask(ctx, driver{s.pool}, s.queries.Extend(key, token, lease))
}

// Release implements ibid.Store.
func (s *Store) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	return pgsql.Ask(ctx, driver{s.pool}, s.queries.Release(key, token))
}

// Checkpoint implements ibid.Checkpointer.
func (s *Store) Checkpoint(ctx context.Context, key ibid.Digest, token ibid.Token, steps []byte) error {
	return pgsql.Ask(ctx, driver{s.pool}, s.queries.Checkpoint(key, token, steps))
}

// Sweep implements ibid.Sweeper. It deletes a thousand records at a time, each
// lot in a transaction of its own, and passes over those that others have
// locked: several processes may sweep at once.
func (s *Store) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	return s.queries.Sweep(ctx, driver{s.pool}, limit)
}

// List implements ibid.Inspector. A damaged record is left out.
func (s *Store) List(ctx context.Context, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	return s.queries.List(ctx, driver{s.pool}, filter, after, limit)
}

// Forget implements ibid.Inspector.
func (s *Store) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	return pgsql.Ask(ctx, driver{s.pool}, s.queries.Forget(key, token, window))
}

// Describe implements ibid.Describer. It reads the settings that are in force
// for a connection of the pool.
func (s *Store) Describe(ctx context.Context) (ibid.Description, error) {
	return s.queries.Describe(ctx, driver{s.pool})
}
