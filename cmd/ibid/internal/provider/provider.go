package provider

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/sqlstore"
)

// MerchantHeader names who asks for a charge. It is the scope of the keys.
const MerchantHeader = "X-Merchant"

// Options of Run.
type Options struct {
	// Addr is where to listen: "127.0.0.1:0". Required.
	Addr string
	// Data is the SQLite file of the charges, and of the keys. Required.
	Data string
	// Log is what is logged to. Required.
	Log *slog.Logger
}

// One row per charge that was made. No constraint of any kind guards them: what
// was charged twice is counted twice.
const schema = `
CREATE TABLE IF NOT EXISTS charges (
	charge_id TEXT NOT NULL,
	order_id  TEXT NOT NULL,
	amount    INTEGER NOT NULL,
	currency  TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS charges_order ON charges (order_id);
`

// wait is how long a duplicate waits for the charge that is in progress.
const wait = time.Second

// Run serves until ctx ends. It writes to out where it listens, as its first
// line: "listening on http://127.0.0.1:8080".
func Run(ctx context.Context, opts Options, out io.Writer) (err error) {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: opts.Data}).EscapedPath()}).String()+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return fmt.Errorf("open %s: %w", opts.Data, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := sqlstore.OpenSQLite(ctx, db, nil)
	if err != nil {
		return fmt.Errorf("open %s: %w", opts.Data, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("open %s: %w", opts.Data, err)
	}
	engine, err := ibid.New(ctx, store, &ibid.Options{
		Policy:  ibid.Policy{Wait: wait},
		Observe: []func(context.Context, ibid.Event){ibid.LogTo(opts.Log)},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(out, "listening on http://%s\n", listener.Addr())
	server := &http.Server{
		Handler: routes(engine, store, db), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(opts.Log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(server.Shutdown(ending), engine.Drain(ending))
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// routes puts the middleware around POST /charges, in transactional mode: the
// charge and its answer are one commit, and a provider that is killed has made
// both or neither.
func routes(engine *ibid.Engine, store *sqlstore.SQLite, db *sql.DB) http.Handler {
	o := ibidhttp.IETF()
	o.Required, o.Tx = true, store
	guard := ibidhttp.New(engine, ibidhttp.ByHeader(MerchantHeader), o)
	mux := http.NewServeMux()
	mux.Handle("POST /charges", losing(guard(http.HandlerFunc(charge))))
	mux.HandleFunc("GET /charges", func(w http.ResponseWriter, r *http.Request) { list(w, r, db) })
	return mux
}
