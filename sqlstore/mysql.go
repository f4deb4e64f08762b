package sqlstore

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/ibid-go/ibid"
)

// MySQL is a store in a MySQL (8.0 or later) or MariaDB (10.6 or later)
// database, through database/sql and any driver. It is safe for concurrent use,
// by any number of processes on any number of hosts.
//
// A verb that changes nothing is one statement, which takes no lock. One that
// changes a record is two: it reads, decides, and writes the record if nobody else
// has meanwhile.
//
// It is also an ibid.TxStore, ibid.Sweeper, ibid.Inspector, ibid.Checkpointer,
// ibid.Notifier (within this process) and ibid.Describer.
type MySQL struct {
	db         *sql.DB
	table      string
	maxResult  int
	read       *sql.Stmt
	insert     *sql.Stmt
	update     *sql.Stmt
	lock       *sql.Stmt
	take       *sql.Stmt
	mariaDB    bool
	statements []*sql.Stmt
	watch      watchers
}

// MySQLOptions of OpenMySQL. A nil *MySQLOptions, and the zero value of every
// field, is the default.
type MySQLOptions struct {
	// Table is the name of the table, and how that of its schema table begins:
	// up to 48 ASCII letters, digits and underscores, not beginning with a
	// digit. Default "ibid_record".
	Table string
	// NoMigrate lets OpenMySQL fail, instead of making the table, where it does
	// not exist. See MySQLSchema and MigrateMySQL.
	NoMigrate bool
}

// OpenMySQL returns a store in the database db, which stays the caller's to
// close, after the store. It makes the table unless it is there.
//
// ErrInvalid reports a server that is read-only, a table that this program does
// not know or that is not InnoDB's, or an option that cannot be used.
func OpenMySQL(ctx context.Context, db *sql.DB, opts *MySQLOptions) (*MySQL, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: db is nil", ibid.ErrInvalid)
	}
	var o MySQLOptions
	if opts != nil {
		o = *opts
	}
	if o.Table == "" {
		o.Table = defaultTable
	}
	if err := checkTable(o.Table); err != nil {
		return nil, err
	}
	there, err := checkMySQL(ctx, db, o.Table)
	if err == nil && !there {
		if o.NoMigrate {
			return nil, fmt.Errorf("%w: table %s does not exist: run the statements of MySQLSchema, or leave MySQLOptions.NoMigrate unset", ibid.ErrInvalid, o.Table)
		}
		err = MigrateMySQL(ctx, db, o.Table)
	}
	if err != nil {
		return nil, err
	}
	s := &MySQL{db: db, table: o.Table}
	var packet int
	var version string
	if err := db.QueryRowContext(ctx, "SELECT @@max_allowed_packet, version()").Scan(&packet, &version); err != nil {
		return nil, err
	}
	s.mariaDB = strings.Contains(version, "MariaDB")
	noWait := "" // MySQL waits for a second at least
	if s.mariaDB {
		noWait = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR "
	}
	// Drivers have a limit of their own, 64 MiB in the common one.
	s.maxResult = min(packet, 64<<20) - 64<<10
	for stmt, text := range map[**sql.Stmt]string{
		&s.read:   "SELECT turn, record, " + mysqlClock + ", CONCAT(@@global.read_only) FROM (SELECT 1) AS one LEFT JOIN TABLE ON `key` = ?",
		&s.insert: "INSERT INTO TABLE (`key`, turn, gone, scope, record) VALUES (?, ?, ?, ?, ?)",
		&s.update: "UPDATE TABLE SET turn = ?, gone = ?, scope = ?, record = ? WHERE `key` = ? AND turn = ?",
		&s.lock:   "SELECT turn, record, " + mysqlClock + " FROM TABLE WHERE `key` = ? FOR UPDATE",
		&s.take:   noWait + mysqlTake,
	} {
		if *stmt, err = db.PrepareContext(ctx, s.sql(text)); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.statements = append(s.statements, *stmt)
	}
	return s, nil
}

// mysqlClock is the server's clock in microseconds since 1970 UTC, as the
// statement began: whoever waited for a lock asks again.
const mysqlClock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// sql puts the name of the table into a statement.
func (s *MySQL) sql(text string) string { return strings.ReplaceAll(text, "TABLE", "`"+s.table+"`") }

// Close gives up the store's prepared statements. db stays open.
func (s *MySQL) Close() error {
	var err error
	for _, stmt := range s.statements {
		err = errors.Join(err, stmt.Close())
	}
	return err
}

//go:embed schema/mysql.sql
var mysqlSchema string

// MySQLSchema returns the statements that make the table of that name, each
// ended by a semicolon, for those who keep their schema elsewhere and set NoMigrate. Running them
// again changes nothing. An empty name is the default one.
func MySQLSchema(table string) (string, error) {
	if table == "" {
		table = defaultTable
	}
	if err := checkTable(table); err != nil {
		return "", err
	}
	return strings.ReplaceAll(mysqlSchema, defaultTable, table), nil
}

// MigrateMySQL makes the table of that name unless it is there, as OpenMySQL
// does. Several processes may do so at once.
func MigrateMySQL(ctx context.Context, db *sql.DB, table string) error {
	schema, err := MySQLSchema(table)
	if err != nil {
		return err
	}
	if table == "" {
		table = defaultTable
	}
	if there, err := checkMySQL(ctx, db, table); err != nil || there {
		return err
	}
	for _, statement := range strings.Split(uncommented(schema), ";") { // no text in it holds a semicolon
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err = checkMySQL(ctx, db, table)
	return err
}

// uncommented drops the comments of a schema.
func uncommented(schema string) string {
	var b strings.Builder
	for line := range strings.Lines(schema) {
		text, _, _ := strings.Cut(line, "--")
		b.WriteString(text + "\n")
	}
	return b.String()
}

// checkMySQL says whether the table is there in the version that this program
// knows.
func checkMySQL(ctx context.Context, db *sql.DB, table string) (there bool, err error) {
	set := make(map[string]string) // setting of the session → value
	var setting, value string
	err = runner{db}.All(ctx, "SHOW VARIABLES WHERE Variable_name IN ('read_only', 'autocommit', 'tx_isolation', 'transaction_isolation')",
		nil, []any{&setting, &value}, func() error {
			set[strings.ToLower(setting)] = strings.ToUpper(value)
			return nil
		})
	switch {
	case err != nil:
		return false, err
	case set["read_only"] == "ON":
		return false, fmt.Errorf("%w: %w", ibid.ErrInvalid, errReadOnly)
	case set["autocommit"] != "ON":
		return false, fmt.Errorf("%w: autocommit is off for connections of db, so that nothing would be committed: leave it on", ibid.ErrInvalid)
	case set["tx_isolation"] == "READ-UNCOMMITTED", set["transaction_isolation"] == "READ-UNCOMMITTED":
		return false, fmt.Errorf("%w: the isolation level of connections of db is READ UNCOMMITTED, so that results would be replayed that are never committed: leave it at REPEATABLE READ", ibid.ErrInvalid)
	}
	engines := make(map[string]string) // table → engine
	rows, err := db.QueryContext(ctx, "SELECT table_name, coalesce(engine, '') FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN (?, ?)", table, table+"_schema")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, engine string
		if err := rows.Scan(&name, &engine); err != nil {
			return false, err
		}
		engines[strings.ToLower(name)] = engine
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	if engine, ok := engines[strings.ToLower(table)]; ok && !strings.EqualFold(engine, "InnoDB") {
		return false, fmt.Errorf("%w: table %s is kept by %s, which has no transactions: ALTER TABLE %s ENGINE = InnoDB", ibid.ErrInvalid, table, engine, table)
	}
	if _, ok := engines[strings.ToLower(table+"_schema")]; !ok {
		return false, nil
	}
	var version int
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM `"+table+"_schema`").Scan(&version); err != nil {
		return false, err
	}
	if version != 0 && version != schemaVersion {
		return false, fmt.Errorf("%w: table %s has schema version %d, this program knows %d: use the program that made it, or a newer one",
			ibid.ErrInvalid, table, version, schemaVersion)
	}
	return version == schemaVersion, nil
}
