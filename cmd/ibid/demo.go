package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/serve"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
	"github.com/ibid-go/ibid/cmd/ibid/internal/tour"
)

// demoCommand runs the tour, or serves.
type demoCommand struct {
	Store      string   `placeholder:"URL" help:"Store of the keys: memory:, sqlite:PATH, redis://…, postgres://…, mysql://… or, with Redis in front, redis://…+postgres://…. Default: an SQLite file in a temporary folder."`
	SecretFile string   `placeholder:"FILE" help:"File with the secret of the store."`
	Break      string   `enum:",no-claim,release-after-success,request-context,fresh-charge-key" default:"" placeholder:"HOW" help:"Break the service on purpose: no-claim, release-after-success, request-context or fresh-charge-key. The tour must then fail."`
	JSON       bool     `name:"json" help:"Print one JSON object per scene, and a last one with the totals."`
	Scene      []string `placeholder:"NAME" help:"Play only these scenes."`

	Serve         string        `group:"Serving" placeholder:"ADDR" help:"Serve the payments API at ADDR for curl, instead of running the tour."`
	Data          string        `group:"Serving" placeholder:"PATH" help:"SQLite file of the payments and the ledger. Default: beside the store's file."`
	Takeover      string        `group:"Serving" enum:"refuse,probe" default:"refuse" help:"What follows an attempt that vanished: refuse or probe."`
	Lease         time.Duration `group:"Serving" help:"How long a claim holds without renewal. Default 30s."`
	MaxRun        time.Duration `group:"Serving" help:"How long one attempt may run. Default 5m."`
	Retain        time.Duration `group:"Serving" help:"How long an answer is replayed. Default 24h."`
	Remember      time.Duration `group:"Serving" help:"How long after that the key is refused as expired. Default 0s."`
	Wait          time.Duration `group:"Serving" help:"How long a duplicate waits for the first request. Default 0s."`
	FailOpen      bool          `group:"Serving" help:"While the store is away, run payments and refunds under their unique constraints. Default: answer 503, and run nothing."`
	StoreTimeout  time.Duration `group:"Serving" help:"How long one call of the store may take. Default 5s."`
	AnswerTimeout time.Duration `group:"Serving" help:"How long a caller waits for its result to be recorded. Default 10s."`
	SealKey       []string      `group:"Serving" placeholder:"ID:FILE" help:"Seal results at rest with this key, 64 hexadecimal digits in a file. May be repeated; the first one seals."`
	Shop          string        `group:"Serving" placeholder:"PATH" help:"SQLite file of stock, orders, wallets and their keys. Default: neither orders nor wallets are served."`
	Provider      string        `group:"Serving" placeholder:"URL" help:"Payment provider that charges for orders, see ibid provider. Default: no orders are served."`
	Recover       time.Duration `group:"Serving" help:"How often to look for orders whose process died, and finish them. It needs --seal-key. Default: never."`
	Naked         bool          `group:"Serving" help:"Serve without ibid and without the unique constraint."`
	Attached      bool          `hidden:"" help:"End when standard input does, and not on an interrupt."`
}

// Run implements kong's command.
func (c *demoCommand) Run(ctx context.Context, std streams) error {
	if c.Serve != "" {
		return c.serve(ctx, std)
	}
	if flag := c.servingOnly(); flag != "" {
		return fmt.Errorf("%s has a meaning only with --serve", flag)
	}
	return c.tour(ctx, std)
}

// servingOnly returns the first flag given that the tour does not know.
func (c *demoCommand) servingOnly() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"--data", c.Data != ""},
		{"--takeover", c.Takeover != "refuse"},
		{"--lease", c.Lease != 0},
		{"--max-run", c.MaxRun != 0},
		{"--retain", c.Retain != 0},
		{"--remember", c.Remember != 0},
		{"--wait", c.Wait != 0},
		{"--fail-open", c.FailOpen},
		{"--store-timeout", c.StoreTimeout != 0},
		{"--answer-timeout", c.AnswerTimeout != 0},
		{"--seal-key", len(c.SealKey) > 0},
		{"--shop", c.Shop != ""},
		{"--provider", c.Provider != ""},
		{"--recover", c.Recover != 0},
		{"--naked", c.Naked},
	} {
		if f.given {
			return f.name
		}
	}
	return ""
}

func (c *demoCommand) serve(ctx context.Context, std streams) error {
	if len(c.Scene) > 0 || c.JSON {
		return errors.New("--scene and --json have no meaning with --serve")
	}
	if c.Naked && c.Break != "" {
		return errors.New("--naked leaves ibid out: there is nothing to --break")
	}
	if c.Attached {
		attached, end := attach(ctx, std.in)
		defer end()
		ctx = attached
	}
	policy := ibid.Policy{Lease: c.Lease, MaxRun: c.MaxRun, Retain: c.Retain, Remember: c.Remember, Wait: c.Wait}
	if c.Takeover == "probe" {
		policy.Takeover = ibid.Probe
	}
	return serve.Run(ctx, serve.Options{
		FailOpen: c.FailOpen, StoreTimeout: c.StoreTimeout, AnswerTimeout: c.AnswerTimeout,
		Addr: c.Serve, Store: c.Store, Data: c.Data, SecretFile: c.SecretFile, SealKeys: c.SealKey, Policy: policy, Naked: c.Naked, Break: c.Break,
		Shop: c.Shop, Provider: c.Provider, Recover: c.Recover,
		Log: slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, std.out)
}

// attach returns a context that ends when in does, and takes no interrupt:
// whoever started the process ends it.
func attach(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	signal.Ignore(os.Interrupt)
	attached, end := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in) // an error is an end, too
		end()
	}()
	return attached, end
}

func (c *demoCommand) tour(ctx context.Context, std streams) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// Nobody reads on, as in "ibid demo | head": the tour then ends in good order
	// instead of being killed.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := printer(std.out, c.JSON, cancel)
	opts := tour.Options{
		Program: program, Store: c.Store, SecretFile: c.SecretFile, Break: c.Break, Only: c.Scene, Out: out,
	}
	if c.Store != "" {
		if opts.Survives, err = survives(ctx, c.Store); err != nil {
			return err
		}
	}
	_, err = tour.Run(ctx, opts)
	return err
}

// survives asks the store what its records survive.
func survives(ctx context.Context, address string) (s ibid.Survival, err error) {
	store, err := stores.Open(ctx, address, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	describer, ok := ibid.As[ibid.Describer](store)
	if !ok {
		return 0, nil
	}
	d, err := describer.Describe(ctx)
	if err != nil {
		return 0, fmt.Errorf("store %q: %w", stores.Shown(address), err)
	}
	return d.Survives, nil
}

// printer is plain when out is not a terminal, and when NO_COLOR asks for it. It
// calls failed when it cannot write.
func printer(out io.Writer, asJSON bool, failed func(error)) tour.Printer {
	checked := checkedWriter{out, failed}
	if asJSON {
		return tour.JSON(checked)
	}
	terminal := false
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return tour.Text(checked, &tour.TextOptions{Terminal: terminal, Colour: terminal && os.Getenv("NO_COLOR") == ""})
}

// checkedWriter tells of writes that fail.
type checkedWriter struct {
	io.Writer
	failed func(error)
}

// Write implements io.Writer.
func (w checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.failed(err)
	}
	return n, err
}
