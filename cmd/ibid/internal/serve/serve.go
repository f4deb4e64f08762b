// Package serve runs the payments service with ibid around its two POST routes,
// and the shop of package orders where it is asked to.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/broken"
	"github.com/ibid-go/ibid/cmd/ibid/internal/orders"
	"github.com/ibid-go/ibid/cmd/ibid/internal/payments"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
	"github.com/ibid-go/ibid/ibidhttp"
)

// Options of Run. The zero value of each optional field is the default.
type Options struct {
	// Addr is where to listen: "127.0.0.1:8080"; port 0 lets the kernel choose. Required.
	Addr string
	// Store is the URL of the store. Default: an SQLite file in a temporary
	// folder, which is removed when the service ends in good order.
	Store string
	// Data is the SQLite file of payments and charges. Default: the file of a
	// sqlite store with ".payments" at its end, or one in a temporary folder.
	Data string
	// SecretFile holds the secret of the store. Default: none.
	SecretFile string
	// SealKeys name the files of the keys that seal results, see
	// stores.SealKeys. Default: none.
	SealKeys []string
	// Policy is the engine's.
	Policy ibid.Policy
	// FailOpen runs payments and refunds while the store is away, under their
	// unique constraints. Default: nothing runs then.
	FailOpen bool
	// StoreTimeout and AnswerTimeout are the engine's.
	StoreTimeout, AnswerTimeout time.Duration
	// Naked serves without ibid, without Store, and without the unique constraint.
	Naked bool
	// Break names a way in which to be broken, see package broken; the unique
	// constraint is then left out too, so that nothing hides it. Default: none.
	Break string
	// Shop is the SQLite file of package orders. Default: neither orders nor
	// wallets are served.
	Shop string
	// Provider is the URL of the payment provider. Default: no orders are served.
	Provider string
	// Recover is how often to look for orders whose process died, and finish
	// them; it needs SealKeys. Default: never.
	Recover time.Duration
	// Log is what is logged to. Required.
	Log *slog.Logger
}

// shutdownTimeout bounds how long requests in progress may take when the
// service is asked to end.
const shutdownTimeout = 30 * time.Second

// Run serves until ctx ends, and then lets what is in progress finish. It writes
// to out where it listens, as its first line: "listening on http://127.0.0.1:8080".
func Run(ctx context.Context, opts Options, out io.Writer) (err error) {
	if opts.Naked {
		opts.Store = "memory:" // nothing will be kept in it
	}
	temp := ""
	defer func() {
		if temp != "" {
			os.RemoveAll(temp)
		}
	}()
	if opts.Store == "" || opts.Data == "" && !strings.Contains(opts.Store, "sqlite:") {
		if temp, err = os.MkdirTemp("", "ibid-demo-"); err != nil {
			return fmt.Errorf("make a temporary folder: %w", err)
		}
		if opts.Store == "" {
			opts.Store = "sqlite:" + filepath.Join(temp, "keys.db")
		}
	}
	secret, err := stores.Secret(opts.SecretFile)
	if err != nil {
		return err
	}
	seal, err := stores.SealKeys(opts.SealKeys)
	if err != nil {
		return err
	}
	store, err := stores.Open(ctx, opts.Store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if opts.Data == "" {
		opts.Data = store.Path + ".payments"
		if store.Path == "" {
			opts.Data = filepath.Join(temp, "payments.db")
		}
	}
	book, err := payments.OpenBook(ctx, opts.Data, &payments.BookOptions{NoConstraint: opts.Naked || opts.Break != ""})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()

	engine, err := ibid.New(ctx, broken.Store(opts.Break, store), &ibid.Options{
		Policy:  opts.Policy,
		Secret:  secret,
		Seal:    seal,
		Observe: []func(context.Context, ibid.Event){ibid.LogTo(opts.Log)},

		StoreTimeout: opts.StoreTimeout, AnswerTimeout: opts.AnswerTimeout,
	})
	if err != nil {
		return err
	}
	shop, err := openShop(ctx, opts, secret, seal)
	if err != nil {
		return err
	}
	drain := engine.Drain
	if shop != nil {
		defer func() { err = errors.Join(err, shop.Close()) }()
		drain = func(ctx context.Context) error { return errors.Join(engine.Drain(ctx), shop.Drain(ctx)) }
	}
	listener, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	welcome(out, listener.Addr().(*net.TCPAddr), opts)

	var background sync.WaitGroup
	defer background.Wait()
	sweeping, stopSweeping := context.WithCancel(ctx)
	defer stopSweeping()
	background.Go(func() { _ = engine.Sweep(sweeping, time.Minute) }) // its error is that of its context

	mux := http.NewServeMux()
	mux.Handle("/", routes(engine, book, opts))
	if shop != nil {
		shop.Routes(mux)
		if opts.Recover > 0 {
			background.Go(func() { _ = shop.Recover(sweeping, opts.Recover) }) // its error is that of its context
		}
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return serve(ctx, server, listener, drain)
}

// openShop returns nil where no shop is served.
func openShop(ctx context.Context, opts Options, secret []byte, seal []ibid.SealKey) (*orders.Shop, error) {
	switch {
	case opts.Shop == "" && (opts.Provider != "" || opts.Recover != 0):
		return nil, errors.New("--provider and --recover have a meaning only with --shop")
	case opts.Shop == "":
		return nil, nil
	case opts.Recover != 0 && len(seal) == 0:
		return nil, errors.New("--recover needs --seal-key: orders are kept to be asked for again, and never readable")
	}
	return orders.Open(ctx, orders.Options{
		Path: opts.Shop, Provider: opts.Provider, Policy: opts.Policy, Secret: secret, Seal: seal,
		FreshChargeKey: opts.Break == broken.FreshChargeKey, Log: opts.Log,
	})
}

// welcome says where the service listens, and what to try.
func welcome(out io.Writer, addr *net.TCPAddr, opts Options) {
	host := addr.String()
	if addr.IP.IsUnspecified() {
		host = fmt.Sprintf("localhost:%d", addr.Port)
	}
	fmt.Fprintf(out, "listening on http://%s\n", host)
	fmt.Fprintf(out, "payments and ledger in %s\n", opts.Data)
	if !opts.Naked {
		fmt.Fprintf(out, "keys in %s\n", stores.Shown(opts.Store))
	}
	if opts.Break != "" {
		fmt.Fprintf(out, "BROKEN on purpose: %s\n", opts.Break)
	}
	fmt.Fprintf(out, `
	curl -i http://%[1]s/payments -H 'X-User-ID: alice' -H 'Idempotency-Key: "k-1"' \
	     -d '{"order_id":"o-1","amount":3000,"currency":"TWD"}'
	curl http://%[1]s/ledger?order_id=o-1

Send the first again, with another amount, or with a fault: -H 'Demo-Delay: 2s' before the charge, -H 'Demo-Hold: 2s' after it,
-H 'Demo-Fail: 503-before', or 500-after, panic-after, exit-after.
`, host)
	if opts.Shop != "" && opts.Provider != "" {
		fmt.Fprintf(out, `
	curl -X PUT http://%[1]s/stock/cup -d 20
	curl -i http://%[1]s/orders -H 'X-User-ID: alice' -H 'Idempotency-Key: "k-1"' \
	     -d '{"order_id":"o-1","item":"cup","quantity":1,"amount":3000,"currency":"TWD"}'
	curl 'http://%[1]s/books?order_id=o-1&item=cup'
	curl %[2]s/charges?order_id=o-1

Kill the process where an order stops: -H 'Demo-Stop: charging', or reserve, charge, order, receipt, answer. The provider: -H 'Demo-Provider: lose',
or slow, decline.
`, host, opts.Provider)
	}
}

// routes puts one middleware around each POST route: they differ in how they
// look up what a vanished attempt did.
func routes(engine *ibid.Engine, book *payments.Book, opts Options) http.Handler {
	service := payments.New(book)
	if opts.Naked {
		return service.Routes(nil, nil)
	}
	guard := func(constraint string, probe func(http.ResponseWriter, *http.Request) ibid.Found) payments.Middleware {
		o := ibidhttp.IETF()
		o.Required = true
		if opts.FailOpen {
			o.Policy = &ibid.Policy{Guard: constraint}
		}
		if opts.Policy.Takeover == ibid.Probe {
			o.Probe = probe
		}
		return broken.Middleware(opts.Break, ibidhttp.New(engine, ibidhttp.ByHeader(payments.UserHeader), o))
	}
	return service.Routes(guard(payments.PaymentGuard, service.ProbePayment), guard(payments.RefundGuard, service.ProbeRefund))
}

// serve serves until ctx ends; then no new request is accepted, those in
// progress end, and all results are recorded.
func serve(ctx context.Context, server *http.Server, listener net.Listener, drain func(context.Context) error) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := errors.Join(server.Shutdown(ending), drain(ending))
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
