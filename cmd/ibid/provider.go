package main

import (
	"context"
	"log/slog"

	"github.com/ibid-go/ibid/cmd/ibid/internal/provider"
)

// providerCommand serves a payment provider, for the orders of the demonstration.
// The tour runs it as a process of its own, to kill it.
type providerCommand struct {
	Serve    string `required:"" placeholder:"ADDR" help:"Where to listen."`
	Data     string `required:"" placeholder:"PATH" help:"SQLite file of the charges and the keys."`
	Attached bool   `hidden:"" help:"End when standard input does, and not on an interrupt."`
}

// Run implements kong's command.
func (c *providerCommand) Run(ctx context.Context, std streams) error {
	if c.Attached {
		attached, end := attach(ctx, std.in)
		defer end()
		ctx = attached
	}
	return provider.Run(ctx, provider.Options{
		Addr: c.Serve, Data: c.Data,
		Log: slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, std.out)
}
