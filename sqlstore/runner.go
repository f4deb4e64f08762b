package sqlstore

import (
	"context"
	"database/sql"
	"errors"
)

// runner is a database, where each statement commits by itself, or a
// transaction.
type runner struct{ conn querier }

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (r runner) One(ctx context.Context, query string, args, dest []any) error {
	return r.conn.QueryRowContext(ctx, query, args...).Scan(dest...)
}

func (r runner) All(ctx context.Context, query string, args, dest []any, each func() error) (err error) {
	rows, err := r.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r runner) Exec(ctx context.Context, query string, args ...any) error {
	_, err := r.conn.ExecContext(ctx, query, args...)
	return err
}
