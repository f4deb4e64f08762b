package main

import (
	"context"
	"fmt"

	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
)

// schemaCommand holds the commands for those who keep their schema themselves.
type schemaCommand struct {
	Print schemaPrintCommand `cmd:"" help:"Print the statements that make a store's table. Nothing is opened."`
	Apply schemaApplyCommand `cmd:"" help:"Make a store's table unless it is there."`
}

type schemaPrintCommand struct {
	Store string `arg:"" placeholder:"STORE" help:"sqlite:, postgres: or mysql:, or a whole URL, of which ?table=T counts."`
}

// Run implements kong's command.
func (c *schemaPrintCommand) Run(std streams) error {
	text, err := stores.Schema(c.Store)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.out, text)
	return err
}

type schemaApplyCommand struct {
	Store string `arg:"" placeholder:"URL" help:"sqlite:PATH, postgres://… or mysql://…."`
}

// Run implements kong's command.
func (c *schemaApplyCommand) Run(ctx context.Context, std streams) error {
	if err := stores.Migrate(ctx, c.Store); err != nil {
		return err
	}
	_, err := fmt.Fprintf(std.out, "the table of %s is there\n", stores.Shown(c.Store))
	return err
}
