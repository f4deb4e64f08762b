// Command ibid is the program around package ibid: a demonstration that proves
// its promises, and the commands of an operator.
package main

import (
	"github.com/alecthomas/kong"

	_ "modernc.org/sqlite" // registers the pure-Go driver "sqlite"

	_ "github.com/ibid-go/ibid"
)

// commands is the command line of the program.
type commands struct {
	Demo demoCommand `cmd:"" help:"Run the tour of the payments service."`
}

type demoCommand struct{}

func (demoCommand) Run() error { return nil }

func main() {
	var line commands
	program := kong.Parse(&line, kong.Name("ibid"), kong.Description("Idempotency for side effects that must not happen twice."))
	program.FatalIfErrorf(program.Run())
}
