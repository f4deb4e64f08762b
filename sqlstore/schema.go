package sqlstore

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/ibid-go/ibid"
)

// SQLiteSchema returns the statements that make the table of that name, for
// those who keep their schema elsewhere and set NoMigrate. Running them again
// changes nothing. An empty name is the default one.
func SQLiteSchema(table string) (string, error) {
	if table == "" {
		table = defaultTable
	}
	if err := checkTable(table); err != nil {
		return "", err
	}
	return strings.ReplaceAll(sqliteSchema, defaultTable, table), nil
}

//go:embed schema/sqlite.sql
var sqliteSchema string

const (
	defaultTable  = "ibid_record"
	schemaVersion = 1
)

// tableName needs no quoting in any dialect, and leaves room for the suffixes
// _schema and _gone.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}$`)

func checkTable(name string) error {
	if !tableName.MatchString(name) || strings.HasPrefix(strings.ToLower(name), "sqlite_") {
		return fmt.Errorf("%w: table name %q: use up to 48 letters, digits and underscores, beginning with a letter and not with sqlite_", ibid.ErrInvalid, name)
	}
	return nil
}

// migrate makes the table unless it is there, and refuses one that it does not
// know.
func (s *SQLite) migrate(ctx context.Context, conn *sql.Conn) error {
	version, err := s.version(ctx, conn)
	switch {
	case err != nil:
		return err
	case version == schemaVersion:
		return nil
	case version != 0:
		return fmt.Errorf("%w: table %s has schema version %d, this program knows %d: use the program that made it, or a newer one",
			ibid.ErrInvalid, s.opts.Table, version, schemaVersion)
	case s.opts.NoMigrate:
		return fmt.Errorf("%w: table %s does not exist: run the statements of SQLiteSchema, or leave SQLiteOptions.NoMigrate unset", ibid.ErrInvalid, s.opts.Table)
	}
	schema, err := SQLiteSchema(s.opts.Table)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, schema)
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // what failed says more
	}
	return err
}

// version returns the version of the table's schema, and 0 where there is none.
func (s *SQLite) version(ctx context.Context, conn *sql.Conn) (version int, err error) {
	var tables int
	err = conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", s.opts.Table+"_schema").Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = conn.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM "+s.opts.Table+"_schema").Scan(&version)
	return version, err
}

// queries are the statements of one table.
type queries struct {
	get, insert, update  string
	lock                 string
	remove, postpone     string
	over, list, listOnly string
}

func newQueries(table string) queries {
	q := strings.NewReplacer("TABLE", table).Replace
	return queries{
		get: q(`SELECT record FROM TABLE WHERE key = ?`),
		// insert changes no row when another process was first.
		insert: q(`INSERT INTO TABLE (key, gone, scope, record) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`),
		update: q(`UPDATE TABLE SET gone = ?, scope = ?, record = ? WHERE key = ?`),
		// lock changes nothing, and takes the write lock to say so.
		lock: q(`UPDATE TABLE SET gone = gone WHERE key = ?`),
		// A row whose gone column is still as it was read holds the record that
		// was read: every write of a record that was over sets a later one.
		remove:   q(`DELETE FROM TABLE WHERE key = ? AND gone = ?`),
		postpone: q(`UPDATE TABLE SET gone = ? WHERE key = ? AND gone = ?`),
		over:     q(`SELECT key, gone, record FROM TABLE WHERE gone <= ? ORDER BY gone LIMIT ?`),
		list:     q(`SELECT key, record FROM TABLE WHERE key > ? ORDER BY key`),
		listOnly: q(`SELECT key, record FROM TABLE WHERE key > ? AND scope = ? ORDER BY key`),
	}
}
