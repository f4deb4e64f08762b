package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/steps"
)

// exampleDB is a database with the tables of the examples, and an engine over it.
func exampleDB(ctx context.Context) (*sql.DB, *sqlstore.SQLite, *ibid.Engine, func()) {
	dir, err := os.MkdirTemp("", "ibid-example-")
	if err != nil {
		panic(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		panic(err)
	}
	store, err := sqlstore.OpenSQLite(ctx, db, nil)
	if err != nil {
		panic(err)
	}
	engine, err := ibid.New(ctx, store, nil)
	if err != nil {
		panic(err)
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE payment (id INTEGER PRIMARY KEY, idempotency_key TEXT UNIQUE, payer TEXT, amount INT);
		CREATE TABLE refund (order_id TEXT, method TEXT, amount INT, PRIMARY KEY (order_id, method));
		CREATE TABLE stock (item TEXT PRIMARY KEY, left_over INT, version INT);
		INSERT INTO stock VALUES ('apple', 10, 1)`)
	if err != nil {
		panic(err)
	}
	return db, store, engine, func() { store.Close(); db.Close(); os.RemoveAll(dir) }
}

// The payment, the record of it and the answer are one transaction.
func ExampleDo() {
	ctx := context.Background()
	db, _, engine, done := exampleDB(ctx)
	defer done()
	call := ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "payment-42"}}
	for range 2 { // the second is a retry
		receipt, outcome, err := sqlstore.Do(ctx, engine, call, func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO payment (payer, amount) VALUES ('user 17', 3000)")
			return "3000 TWD paid", err
		})
		fmt.Println(receipt, outcome.Replayed, err)
	}
	var payments int
	_ = db.QueryRowContext(ctx, "SELECT count(*) FROM payment").Scan(&payments)
	fmt.Println(payments, "payment")
	// Output:
	// 3000 TWD paid false <nil>
	// 3000 TWD paid true <nil>
	// 1 payment
}

// A refusal that is decided half-way is kept, and what was written before it is not.
func ExampleDo_refusal() {
	ctx := context.Background()
	db, _, engine, done := exampleDB(ctx)
	defer done()
	call := ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "order-43"}}
	for range 2 {
		_, outcome, err := sqlstore.Do(ctx, engine, call, func(ctx context.Context, tx *sql.Tx) (string, error) {
			var left int
			err := tx.QueryRowContext(ctx, "UPDATE stock SET left_over = left_over - 11 WHERE item = 'apple' RETURNING left_over").Scan(&left)
			if err == nil && left < 0 {
				err = ibid.Final(errors.New("sold out"))
			}
			return "order taken", err
		})
		fmt.Println(err, outcome.Replayed)
	}
	var left int
	_ = db.QueryRowContext(ctx, "SELECT left_over FROM stock WHERE item = 'apple'").Scan(&left)
	fmt.Println(left, "apples")
	// Output:
	// sold out false
	// sold out true
	// 10 apples
}

// A guard of the application's own: the table refuses what the store could not.
func Example_guard() {
	ctx := context.Background()
	db, _, _, done := exampleDB(ctx)
	defer done()
	for range 2 {
		var id int64
		err := db.QueryRowContext(ctx, `INSERT INTO payment (idempotency_key, payer, amount) VALUES ('payment-42', 'user 17', 3000)
			ON CONFLICT (idempotency_key) DO NOTHING RETURNING id`).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) { // no row came back: it was there
			err = db.QueryRowContext(ctx, "SELECT id FROM payment WHERE idempotency_key = 'payment-42'").Scan(&id)
			fmt.Println("was there")
		}
		fmt.Println(id, err)
	}
	// Output:
	// 1 <nil>
	// was there
	// 1 <nil>
}

// A key made of business fields: at most one refund of an order to a card, whoever
// asks for it, and with whatever header.
func Example_naturalKey() {
	ctx := context.Background()
	_, _, engine, done := exampleDB(ctx)
	defer done()
	refund := func(order, method string, amount int) error {
		call := ibid.Call{
			Key:         ibid.Key{Scope: "refunds", ID: fmt.Sprintf("%q %q", order, method)}, // quoted: no two pairs are one text
			Fingerprint: engine.Fingerprint(fmt.Appendf(nil, "%d", amount)),
		}
		_, _, err := sqlstore.Do(ctx, engine, call, func(ctx context.Context, tx *sql.Tx) (bool, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO refund VALUES (?, ?, ?)", order, method, amount)
			return true, err
		})
		return err
	}
	fmt.Println(refund("order-42", "card", 3000))
	fmt.Println(refund("order-42", "card", 3000))
	fmt.Println(refund("order-42", "voucher", 500))
	fmt.Println(errors.Is(refund("order-42", "card", 2000), ibid.ErrMismatch))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// true
}

// Optimistic locking keeps two different requests from overwriting each other,
// which a key per request does not.
func Example_optimisticLocking() {
	ctx := context.Background()
	db, _, _, done := exampleDB(ctx)
	defer done()
	take := func(n, version int) bool {
		res, err := db.ExecContext(ctx, "UPDATE stock SET left_over = left_over - ?, version = version + 1 WHERE item = 'apple' AND version = ? AND left_over >= ?", n, version, n)
		if err != nil {
			return false
		}
		rows, err := res.RowsAffected()
		return err == nil && rows == 1
	}
	fmt.Println(take(3, 1)) // both have read version 1
	fmt.Println(take(4, 1))
	fmt.Println(take(4, 2)) // read again
	// Output:
	// true
	// false
	// true
}

// A step elsewhere, and one in the database, whose writes and recovery point are
// one transaction.
func Example_stepTx() {
	ctx := context.Background()
	_, store, engine, done := exampleDB(ctx)
	defer done()
	call := ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "order-44"}}
	crashed := false
	order := func(ctx context.Context, op *steps.Op) (string, error) {
		charge, err := steps.Step(ctx, op, "charge", func(_ context.Context, info steps.StepInfo) (string, error) {
			fmt.Println("charges, attempt", info.Attempt)
			return "ch_1", nil
		})
		if err != nil {
			return "", err
		}
		number, err := steps.StepTx(ctx, op, store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) {
			fmt.Println("writes the order")
			res, err := tx.ExecContext(ctx, "INSERT INTO payment (payer, amount) VALUES ('user 17', 3000)")
			if err != nil {
				return 0, err
			}
			return res.LastInsertId()
		})
		if err != nil {
			return "", err
		}
		if !crashed {
			crashed = true
			return "", errors.New("the mail server is down")
		}
		return fmt.Sprintf("order %d paid with %s", number, charge), nil
	}
	for range 3 {
		receipt, _, err := steps.Run(ctx, engine, call, order)
		fmt.Println(receipt, err)
	}
	// Output:
	// charges, attempt 1
	// writes the order
	//  the mail server is down
	// order 1 paid with ch_1 <nil>
	// order 1 paid with ch_1 <nil>
}
