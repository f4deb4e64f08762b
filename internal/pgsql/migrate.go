package pgsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ibid-go/ibid"
)

// Check reports ErrInvalid unless db is a primary, and says whether the table
// is there in the version that this program knows.
func (q *Queries) Check(ctx context.Context, db DB) (there bool, err error) {
	var standby, exists bool
	query := "SELECT pg_is_in_recovery(), to_regclass($1) IS NOT NULL"
	if err := db.One(ctx, query, []any{quote(q.table + "_schema")}, []any{&standby, &exists}); err != nil {
		return false, err
	}
	if standby {
		return false, fmt.Errorf("%w: %w", ibid.ErrInvalid, errStandby)
	}
	if !exists {
		return false, nil
	}
	var version int64
	err = db.One(ctx, "SELECT coalesce(max(version), 0) FROM "+quote(q.table+"_schema"), nil, []any{&version})
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return false, err
	case version != schemaVersion && version != 0:
		return false, fmt.Errorf("%w: table %s has schema version %d, this program knows %d: use the program that made it, or a newer one",
			ibid.ErrInvalid, q.table, version, schemaVersion)
	}
	return version == schemaVersion, nil
}

// Migrate makes the table in the transaction tx unless it is there. One process
// at a time does; the others find it made.
func (q *Queries) Migrate(ctx context.Context, tx DB) error {
	if err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "ibid/"+q.table); err != nil {
		return err
	}
	there, err := q.Check(ctx, tx)
	if err != nil || there {
		return err
	}
	return tx.Exec(ctx, schema(q.table))
}

// Missing is what a store says that may not make its table.
func (q *Queries) Missing() error {
	return fmt.Errorf("%w: table %s does not exist: run the statements of the store's schema, or leave NoMigrate unset", ibid.ErrInvalid, q.table)
}
