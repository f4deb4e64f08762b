// Command ibid is the program around package ibid: a demonstration that proves
// its promises, and the commands of an operator.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands is the command line of the program.
type commands struct {
	Demo     demoCommand     `cmd:"" help:"Run a tour that puts the promises to the test, or serve the payments API of the tour."`
	Keys     keysCommand     `cmd:"" help:"Look at keys, resolve unknown outcomes, forget keys."`
	Recover  recoverCommand  `cmd:"" help:"Finish operations whose process died, by sending their kept requests to the service again."`
	Store    storeCommand    `cmd:"" help:"Check stores."`
	Schema   schemaCommand   `cmd:"" help:"Print or apply the schema of a store in SQL."`
	Pay      payCommand      `cmd:"" hidden:"" help:"Pay an order, as a client of the payments API does."`
	Consume  consumeCommand  `cmd:"" hidden:"" help:"Book the orders of a queue."`
	Provider providerCommand `cmd:"" hidden:"" help:"Serve a payment provider, which charges for the orders of the demonstration."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, "ibid:", trimmed(err))
		stop()
		os.Exit(1)
	}
}

// run runs one command line.
func run(ctx context.Context, args []string, std streams) error {
	var line commands
	parser, err := kong.New(&line,
		kong.Name("ibid"),
		kong.Description("Idempotency for side effects that must not happen twice."),
		kong.Writers(std.out, std.err),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}

// trimmed is err's text without the name of the program, which comes first
// anyway.
func trimmed(err error) string {
	s := err.Error()
	if len(s) > 6 && s[:6] == "ibid: " {
		return s[6:]
	}
	return s
}
