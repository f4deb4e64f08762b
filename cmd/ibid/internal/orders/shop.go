package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/sqlstore"
)

// UserHeader names the caller. In front of a real service it would be what
// authentication found out; here it is believed.
const UserHeader = "X-User-ID"

// Options of Open. The zero value of each optional field is the default.
type Options struct {
	// Path is the SQLite file of stock, orders, receipts and wallets, and of the
	// keys of their operations. Required.
	Path string
	// Provider is the URL of the payment provider. Default: orders are not served.
	Provider string
	// Policy is the engine's; what follows a vanished attempt is always ibid.Retry: the
	// steps know what is left to do.
	Policy ibid.Policy
	// Secret and Seal are the engine's. Without Seal no request is kept, and
	// Recover has nothing to go on with.
	Secret []byte
	Seal   []ibid.SealKey
	// FreshChargeKey is the fault broken.FreshChargeKey. Default false.
	FreshChargeKey bool
	// Log is what is logged to. Required.
	Log *slog.Logger
}

// Stock is changed by one conditional statement that cannot take it below zero, however many orders come
// at once: the key of an order keeps it from happening twice, and has nothing to say
// about other orders.
//
// wallet_payments has a natural key, the order and how it is paid, so that two clients with two
// idempotency keys pay an order once. wallets has a version, so that a decision that
// was made on an old balance can be refused.
//
// reservations, orders, receipts and wallet_entries are without any constraint: what happened
// twice is counted twice.
const schema = `
CREATE TABLE IF NOT EXISTS stock (
	item TEXT PRIMARY KEY,
	quantity INTEGER NOT NULL CHECK (quantity >= 0)
);
CREATE TABLE IF NOT EXISTS reservations (order_id TEXT NOT NULL, item TEXT NOT NULL, quantity INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
	order_id  TEXT NOT NULL,
	user_id   TEXT NOT NULL,
	item      TEXT NOT NULL,
	quantity  INTEGER NOT NULL,
	charge_id TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS receipts (order_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS wallets (
	user_id TEXT PRIMARY KEY,
	balance INTEGER NOT NULL CHECK (balance >= 0),
	version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS wallet_payments (
	payment_id TEXT PRIMARY KEY,
	order_id   TEXT NOT NULL,
	method     TEXT NOT NULL,
	UNIQUE (order_id, method)
);
CREATE TABLE IF NOT EXISTS wallet_entries (order_id TEXT NOT NULL, user_id TEXT NOT NULL, amount INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS reservations_order ON reservations (order_id);
CREATE INDEX IF NOT EXISTS orders_order ON orders (order_id);
CREATE INDEX IF NOT EXISTS receipts_order ON receipts (order_id);
CREATE INDEX IF NOT EXISTS wallet_entries_order ON wallet_entries (order_id);
`

// Shop is the API, with ibid around what must not happen twice.
type Shop struct {
	db     *sql.DB
	store  *sqlstore.SQLite
	engine *ibid.Engine
	opts   Options
	bank   *http.Client // calls the provider
	orders http.Handler // POST /orders, guarded
	wallet http.Handler // POST /wallet/payments, guarded
	holds  holds
}

// Open opens the shop, and makes its file if there is none. It starts nothing:
// see Recover.
func Open(ctx context.Context, opts Options) (*Shop, error) {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: opts.Path}).EscapedPath()}).String()+
		"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open the shop %s: %w", opts.Path, err)
	}
	s := &Shop{db: db, opts: opts, bank: bank(opts.FreshChargeKey)}
	if s.store, err = sqlstore.OpenSQLite(ctx, db, nil); err == nil {
		_, err = db.ExecContext(ctx, schema)
	}
	if err == nil {
		s.opts.Policy.Takeover = ibid.Retry
		s.engine, err = ibid.New(ctx, s.store, &ibid.Options{
			Policy: s.opts.Policy, Secret: opts.Secret, Seal: opts.Seal, Require: ibid.ProcessKill,
			Observe: []func(context.Context, ibid.Event){ibid.LogTo(opts.Log)},
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the shop %s: %w", opts.Path, errors.Join(err, s.Close()))
	}
	o := ibidhttp.IETF()
	o.Required = true
	s.orders = ibidhttp.New(s.engine, ibidhttp.ByHeader(UserHeader), o)(http.HandlerFunc(s.postOrder))
	inTx := ibidhttp.IETF()
	inTx.Required, inTx.Tx = true, s.store
	inTx.Policy = &ibid.Policy{Wait: walletWait}
	s.wallet = ibidhttp.New(s.engine, ibidhttp.ByHeader(UserHeader), inTx)(http.HandlerFunc(s.postWalletPayment))
	return s, nil
}

// walletWait is how long a duplicate of a wallet payment waits for the first.
const walletWait = 2 * time.Second

// Routes adds the routes of the shop to mux.
func (s *Shop) Routes(mux *http.ServeMux) {
	if s.opts.Provider != "" {
		mux.Handle("POST /orders", s.beforeAnswer(s.orders))
	}
	mux.Handle("POST /wallet/payments", s.beforeAnswer(s.wallet))
	mux.HandleFunc("PUT /stock/{item}", s.putStock)
	mux.HandleFunc("PUT /wallets/{user}", s.putWallet)
	mux.HandleFunc("GET /books", s.getBooks)
	mux.HandleFunc("GET /held", s.getHeld)
}

// Drain waits until all results are recorded.
func (s *Shop) Drain(ctx context.Context) error { return s.engine.Drain(ctx) }

// Close closes the shop, after what runs in it has ended.
func (s *Shop) Close() error {
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	return errors.Join(err, s.db.Close())
}
