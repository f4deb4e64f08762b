// Package pgsql is the store contract in PostgreSQL's SQL: the schema, a
// statement per verb, and how their answers are read. Package pgxstore and the
// PostgreSQL store of package sqlstore are made of it; how a statement reaches
// the server is theirs.
package pgsql

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/ibid-go/ibid"
)

// DefaultTable is the table of a store that names none.
const DefaultTable = "ibid_record"

// schemaVersion is that of sql/schema.sql.
const schemaVersion = 1

//go:embed sql/*.sql
var files embed.FS

// Queries are the statements of one table.
type Queries struct {
	table                        string
	begin, write, look           string
	manyBegin, manyWrite         string
	insert, lookLock             string
	watch, sweep, list, describe string
}

// tableName is a name that PostgreSQL means the same by with and without
// quotes, with room for the suffixes of what belongs to it.
var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,47}$`)

// checkTable returns name, or what stands for its being empty.
func checkTable(name string) (string, error) {
	if name == "" {
		return DefaultTable, nil
	}
	if !tableName.MatchString(name) {
		return "", fmt.Errorf("%w: table name %q: use up to 48 lower-case letters, digits and underscores, not beginning with a digit, after a schema and a dot if need be",
			ibid.ErrInvalid, name)
	}
	return name, nil
}

// NewQueries returns the statements of table, which may be empty for the
// default and may name its schema.
func NewQueries(table string) (*Queries, error) {
	table, err := checkTable(table)
	if err != nil {
		return nil, err
	}
	q := &Queries{
		table: table,
		begin: expand("ask_begin", table), write: expand("ask_write", table), look: expand("look", table),
		manyBegin: expand("many_begin", table), manyWrite: expand("many_write", table), insert: expand("insert", table), lookLock: expand("look_lock", table),
		watch: expand("watch", table), sweep: expand("sweep", table), list: expand("list", table), describe: expand("describe", table),
	}
	return q, nil
}

// Schema returns the statements that make table. Running them again changes
// nothing.
func Schema(table string) (string, error) {
	table, err := checkTable(table)
	if err != nil {
		return "", err
	}
	return schema(table), nil
}

// schema returns the table, its functions, and last the mark that they are there.
func schema(table string) string {
	return expand("schema", table) + "\n" + expand("begin", table) + "\n" + expand("write", table) + "\n" + expand("version", table)
}

// What the statements have in common.
var (
	macros = strings.NewReplacer(
		"ANSWER_COLUMNS", "CASE WHEN r.key IS NOT NULL THEN RECORD_OF(r) END, r.sum, r.result",
		"CHECKED_COLUMNS", "key, version, state, token, fence, attempt, vanished, generation, fingerprint, scope, label, steps, "+
			"lease_end, window_end, gone, result_sum",
		"CHECKED_OF_R", "r.key, r.version, r.state, r.token, r.fence, r.attempt, r.vanished, r.generation, r.fingerprint, r.scope, "+
			"r.label, r.steps, r.lease_end, r.window_end, r.gone, r.result_sum",
		// What Begin makes of a key of which nothing is kept.
		"NEW_RECORD", "a_key AS key, 1::int2 AS version, 1::int2 AS state, a_token AS token, now AS fence, 1 AS attempt, 0 AS vanished, "+
			"0 AS generation, a_fingerprint AS fingerprint, a_scope AS scope, a_label AS label, NULL::bytea AS steps, "+
			"now + a_lease AS lease_end, now + a_lease + a_window AS window_end, now + a_lease + a_window AS gone, NULL::int4 AS result_sum",
		// What Complete makes of a claim.
		"COMPLETED_RECORD", "r.key, r.version, 2::int2, r.token, r.fence, r.attempt, r.vanished, r.generation, r.fingerprint, r.scope, "+
			"r.label, r.steps, 0::int8, now + a_time, now + a_time + b_time, bytes_sum",
		// Exact: a moment in microseconds has fewer bits than a float8.
		"NOW_MICROS", "(date_part('epoch', clock_timestamp()) * 1000000)::int8",
	)
	// recordOf is the bytes of a row's record, and sumOf their checksum: see row.
	recordOf = regexp.MustCompile(`RECORD_OF\((\w+)\)`)
	sumOf    = regexp.MustCompile(`SUM_OF\((\w+)\)`)
	sumOfRow = regexp.MustCompile(`SUM_OF_ROW\(([^()]*)\)`)
)

// expand returns a statement for table.
func expand(name, table string) string {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // embedded
	}
	s := macros.Replace(string(text))
	s = sumOf.ReplaceAllString(s, "substr(sha256(RECORD_OF($1)), 1, 8)")
	s = recordOf.ReplaceAllString(s, "record_send(ROW($1.key, $1.version, $1.state, $1.token, $1.fence, $1.attempt, $1.vanished, $1.generation, "+
		"$1.fingerprint, $1.scope, $1.label, $1.steps, $1.lease_end, $1.window_end, $1.gone, $1.result_sum))")
	s = sumOfRow.ReplaceAllString(s, "substr(sha256(record_send(ROW($1))), 1, 8)")
	_, base, qualified := strings.Cut(table, ".")
	if !qualified {
		base = table
	}
	return strings.NewReplacer(
		"TABLE_NAME", quote(table), "SCHEMA_NAME", quote(table+"_schema"), "INDEX_NAME", quote(base+"_due"),
		"BEGIN_NAME", quote(table+"_begin"), "WRITE_NAME", quote(table+"_write"),
		"CHANNEL", channel(table), "TABLE_TEXT", table,
	).Replace(s)
}

// channel is where the ends of claims in table are announced.
func channel(table string) string { return strings.ReplaceAll(table, ".", "/") }

// quote makes an identifier of a checked name, so that a keyword is one too.
func quote(name string) string {
	return `"` + strings.ReplaceAll(name, ".", `"."`) + `"`
}
