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
	table, channel               string
	begin, look                  string
	complete, extend, release    string
	checkpoint, forget           string
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
	q := &Queries{table: table, channel: table}
	for name, text := range map[string]*string{
		"begin": &q.begin, "look": &q.look, "complete": &q.complete, "extend": &q.extend, "release": &q.release,
		"checkpoint": &q.checkpoint, "forget": &q.forget, "watch": &q.watch, "sweep": &q.sweep, "list": &q.list,
		"describe": &q.describe,
	} {
		*text = expand(name, table)
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
	return expand("schema", table), nil
}

// What the statements have in common.
var (
	macros = strings.NewReplacer(
		"RECORD_COLUMNS", "key, version, state, token, fence, attempt, vanished, generation, fingerprint, scope, label, steps, lease_end, window_end, gone, result_sum",
		"ANSWER_COLUMNS", "r.version, r.state, r.token, r.fence, r.attempt, r.vanished, r.generation, r.fingerprint, r.scope, r.label, r.steps, r.lease_end, r.window_end, r.gone, r.result_sum",
		"HELD_BY_TOKEN", "r.key = $1 AND r.token = $2 AND r.state = 1 AND r.gone > clock.now AND SOUND",
		"WHY_NOT", "CASE WHEN NOT (SOUND) THEN 'damaged' WHEN state = 1 AND token = $2 AND gone > now THEN 'raced' ELSE 'lost' END",
	)
	sound = strings.NewReplacer(
		"SOUND", "r.version = 1 AND r.sum = SUM_OF(r)",
		// extract is exact: it is numeric, not a float.
		"NOW_MICROS", "(extract(epoch FROM clock_timestamp()) * 1000000)::int8",
	)
	sumOf  = regexp.MustCompile(`SUM_OF\((\w+)\)`)
	wakeIf = regexp.MustCompile(`WAKE_IF\(([^)]*)\)`)
)

// expand returns a statement for table.
func expand(name, table string) string {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // embedded
	}
	s := sound.Replace(macros.Replace(string(text)))
	s = sumOf.ReplaceAllString(s, "substr(sha256(record_send(ROW($1.key, $1.version, $1.state, $1.token, $1.fence, $1.attempt, $1.vanished, $1.generation, "+
		"$1.fingerprint, $1.scope, $1.label, $1.steps, $1.lease_end, $1.window_end, $1.gone, $1.result_sum))), 1, 8)")
	s = wakeIf.ReplaceAllString(s, "CASE WHEN $1 THEN pg_notify('CHANNEL', encode($$1, 'hex'))::text END")
	_, base, qualified := strings.Cut(table, ".")
	if !qualified {
		base = table
	}
	return strings.NewReplacer(
		"TABLE_NAME", quote(table), "SCHEMA_NAME", quote(table+"_schema"), "INDEX_NAME", quote(base+"_due"),
		"CHANNEL", channel(table), "TABLE_TEXT", table,
	).Replace(s)
}

// channel is where the ends of claims in table are announced.
func channel(table string) string { return strings.ReplaceAll(table, ".", "/") }

// quote makes an identifier of a checked name, so that a keyword is one too.
func quote(name string) string {
	return `"` + strings.ReplaceAll(name, ".", `"."`) + `"`
}
