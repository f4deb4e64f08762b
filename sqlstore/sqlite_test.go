package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// The behaviour of the store is tested with a driver, in internal/integration.

var _ interface {
	ibid.Store
	ibid.Sweeper
	ibid.Inspector
	ibid.Checkpointer
	ibid.Notifier
	ibid.Describer
} = (*sqlstore.SQLite)(nil)

func TestSchemaNamesTheTable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, table, why string }{
		{"default", "", "an empty name is the default, as in SQLiteOptions"},
		{"own", "Payments_2", "several services may share a file"},
		{"longest", "a" + strings.Repeat("b", 47), "the suffixes of index and schema table still fit 63 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			schema, err := sqlstore.SQLiteSchema(row.table)
			if err != nil {
				t.Fatalf("%v (%s)", err, row.why)
			}
			table := row.table
			if table == "" {
				table = "ibid_record"
			} else if strings.Contains(schema, "ibid_record") {
				t.Errorf("the schema still names ibid_record (%s)", row.why)
			}
			for _, want := range []string{"CREATE TABLE IF NOT EXISTS " + table + " (", table + "_gone ON " + table, table + "_schema"} {
				if !strings.Contains(schema, want) {
					t.Errorf("the schema lacks %q (%s)", want, row.why)
				}
			}
		})
	}
}

func TestTableNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ table, why string }{
		{"a b", "names are not quoted"},
		{"x; DROP TABLE payments", "a name from a configuration must not be a statement"},
		{`x"`, "a quote would end a quoted name"},
		{"1st", "no dialect lets a bare name begin with a digit"},
		{"schéma", "letters outside ASCII fold differently per dialect"},
		{"a" + strings.Repeat("b", 48), "with a suffix it would be cut, and two tables merge"},
		{"SQLite_record", "SQLite keeps that prefix to itself"},
		{"main.x", "a schema is not part of the name"},
	} {
		if _, err := sqlstore.SQLiteSchema(row.table); !errors.Is(err, ibid.ErrInvalid) {
			t.Errorf("table %q: %v, want ErrInvalid: %s", row.table, err, row.why)
		}
	}
}

func TestOpenRefusesNoDatabase(t *testing.T) {
	t.Parallel()
	if _, err := sqlstore.OpenSQLite(t.Context(), nil, nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
}

// The driver is the program's to choose: any for SQLite will do.
func ExampleOpenSQLite() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:payments.db?_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return
	}
	defer db.Close()
	store, err := sqlstore.OpenSQLite(ctx, db, &sqlstore.SQLiteOptions{Table: "payments_ibid"})
	if err != nil {
		return
	}
	defer store.Close()
	_, _ = ibid.New(ctx, store, &ibid.Options{Require: ibid.PowerLoss})
}
