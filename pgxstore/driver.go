package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// driver is a pool, or a transaction, as package pgsql wants it.
type driver struct{ conn querier }

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (d driver) One(ctx context.Context, query string, args, dest []any) error {
	return d.conn.QueryRow(ctx, query, args...).Scan(dest...) // pgx.ErrNoRows is sql.ErrNoRows
}

func (d driver) All(ctx context.Context, query string, args, dest []any, each func() error) error {
	rows, err := d.conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, dest, each)
	return err
}

func (d driver) Exec(ctx context.Context, query string, args ...any) error {
	_, err := d.conn.Exec(ctx, query, args...)
	return err
}
