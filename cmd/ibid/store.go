package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
	"github.com/ibid-go/ibid/storetest"
)

// storeCommand holds the commands about stores.
type storeCommand struct {
	Check storeCheckCommand `cmd:"" help:"Put a kind of store through the contract, and say what it survives."`
}

type storeCheckCommand struct {
	Store   string `required:"" env:"IBID_STORE" placeholder:"URL" help:"memory: or sqlite:DIR. Every case makes an empty store of its own, in DIR, and removes it."`
	Verbose bool   `short:"v" help:"Also name the cases that hold, and say why each matters."`
}

// Run implements kong's command.
func (c *storeCheckCommand) Run(ctx context.Context, std streams) error {
	target, done, err := checkTarget(c.Store)
	if err != nil {
		return err
	}
	defer done()
	if err := describe(ctx, std.out, target); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%d cases, some of which wait for leases to end …\n", len(storetest.Cases()))
	failed, lacking := 0, map[storetest.Needs]int{} // what is needed → how many cases need it
	reports := storetest.Check(ctx, target)
	for _, r := range reports {
		switch {
		case r.Err != nil:
			failed++
			fmt.Fprintf(std.out, "BROKEN  %s\n        %v\n        why: %s\n", r.Name, r.Err, r.Why)
		case r.Needs != "":
			lacking[r.Needs]++
		case c.Verbose:
			fmt.Fprintf(std.out, "holds   %s\n        why: %s\n", r.Name, r.Why)
		}
	}
	skipped := 0
	for need, n := range lacking {
		skipped += n
		fmt.Fprintf(std.out, "skipped %d: they need %s\n", n, string(need))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fmt.Fprintf(std.out, "%d cases: %d hold, %d skipped, %d broken\n", len(reports), len(reports)-failed-skipped, skipped, failed)
	if failed > 0 {
		return fmt.Errorf("the store breaks the contract in %d cases", failed)
	}
	return nil
}

// checkTarget returns the stores that address stands for, and how to remove
// what they leave behind.
func checkTarget(address string) (storetest.Target, func(), error) {
	nothing := func() {}
	if address == "memory:" {
		open := func(ctx context.Context) (ibid.Store, func() error, error) {
			s, err := stores.Open(ctx, address, nil)
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		}
		return storetest.Target{Open: open}, nothing, nil
	}
	dir, ok := strings.CutPrefix(address, "sqlite:")
	if !ok {
		return storetest.Target{}, nothing, fmt.Errorf("store %q: use memory: or sqlite:DIR", address)
	}
	dir, err := os.MkdirTemp(dir, "ibid-check-")
	if err != nil {
		return storetest.Target{}, nothing, fmt.Errorf("store %q: make a folder: %w", address, err)
	}
	n := 0
	open := func(ctx context.Context) (ibid.Store, func() error, error) {
		n++
		s, err := stores.Open(ctx, fmt.Sprintf("sqlite:%s", filepath.Join(dir, fmt.Sprintf("%d.db", n))), nil)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	second := func(ctx context.Context, first ibid.Store) (ibid.Store, func() error, error) {
		s, err := stores.Open(ctx, first.(*stores.Opened).URL, nil)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	return storetest.Target{Open: open, Second: second, Tick: 200 * time.Millisecond}, func() { os.RemoveAll(dir) }, nil
}

// describe says what the store's settings let it promise.
func describe(ctx context.Context, w io.Writer, target storetest.Target) error {
	store, done, err := target.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = done() }() // it was only read
	describer, ok := ibid.As[ibid.Describer](store)
	if !ok {
		return nil
	}
	d, err := describer.Describe(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: what was acknowledged survives %s\n", d.Store, d.Survives)
	for bit := ibid.ProcessKill; bit <= ibid.Failover; bit <<= 1 {
		if advice := d.Advice[bit]; advice != "" {
			fmt.Fprintf(w, "        not %s: %s\n", bit, advice)
		}
	}
	return nil
}
