package stores

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/sqlstore"
)

// Schema returns the statements that make the table of a store in SQL. address
// may be a whole URL, of which only the kind and the table count: nothing is
// opened.
func Schema(address string) (string, error) {
	address = decider(address)
	kind, _, _ := strings.Cut(address, ":")
	table := ""
	if kind != "sqlite" {
		var err error
		if _, table, err = parameter(address, "table"); err != nil {
			return "", failed(address, err)
		}
	}
	switch kind {
	case "sqlite":
		return sqlstore.SQLiteSchema(table)
	case "postgres", "postgresql":
		return pgxstore.Schema(table)
	case "mysql", "mariadb":
		return sqlstore.MySQLSchema(table)
	case "memory", "redis", "rediss", "valkey", "valkeys":
		return "", fmt.Errorf("store %q: it needs no schema", Shown(address))
	}
	return "", fmt.Errorf("store %q: %q has no schema: use sqlite:PATH, postgres://… or mysql://…", Shown(address), kind)
}

// Migrate makes the table at address unless it is there.
func Migrate(ctx context.Context, address string) error {
	address = decider(address)
	if _, err := Schema(address); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(address, ":")
	switch kind {
	case "postgres", "postgresql":
		rest, table, err := parameter(address, "table")
		if err != nil {
			return failed(address, err)
		}
		pool, err := pgxpool.New(ctx, rest)
		if err != nil {
			return failed(address, fmt.Errorf("%w: postgres://USER@HOST:PORT/DATABASE", errAddress))
		}
		defer pool.Close()
		if err := pgxstore.Migrate(ctx, pool, table); err != nil {
			return failed(address, err)
		}
		return nil
	case "mysql", "mariadb":
		db, table, err := mysqlDB(address)
		if err != nil {
			return failed(address, err)
		}
		if err := sqlstore.MigrateMySQL(ctx, db, table); err != nil {
			return failed(address, errors.Join(err, db.Close()))
		}
		return db.Close()
	}
	store, err := Open(ctx, address, nil) // which makes it
	if err != nil {
		return err
	}
	return store.Close()
}

// decider returns the address of the store that decides, also of one without a
// front.
func decider(address string) string {
	if _, decides, ok := split(address); ok {
		return decides
	}
	return address
}
