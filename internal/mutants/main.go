// Command mutants breaks the code in the ways that the *.mut files beside it
// describe, one at a time and in a copy of the repository, and sees the named
// test fail. A mutant that survives says that the test proves less than it claims.
//
// It exits with 1 when a mutant survived, or when one proved nothing: its text
// does not stand exactly once, it does not compile, its test fails on the intact
// code too, or no test was run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := program(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are the flags of the program.
type options struct {
	root    string
	dir     string
	run     *regexp.Regexp // nil runs all
	workers int
	timeout time.Duration
	list    bool
	check   bool
	fill    string
}

func program(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseFlags(args, out)
	if err != nil {
		return err
	}
	all, err := load(o.dir)
	if err != nil {
		return err
	}
	chosen := all[:0:0]
	for _, m := range all {
		if o.run == nil || o.run.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	switch {
	case o.list:
		for _, m := range chosen {
			fmt.Fprintf(out, "%-40s %-12s %s\n", m.name, m.hazard, strings.Join(m.test, " "))
		}
		return nil
	case o.fill != "":
		return fill(o.root, o.fill, all)
	case o.check:
		return check(o.root, chosen, out)
	case len(chosen) == 0 && o.run != nil:
		return fmt.Errorf("no mutant matches %q", o.run)
	}
	return runAll(ctx, o, chosen, out)
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	var run string
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&run, "run", "", "run the mutants whose name matches this `regexp`")
	flags.IntVar(&o.workers, "j", 2, "how many are run at one time")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "how long one test may take; a test that hangs has noticed")
	flags.BoolVar(&o.list, "list", false, "print the mutants and run nothing")
	flags.BoolVar(&o.check, "check", false, "see that every mutant applies to its file, and run nothing")
	flags.StringVar(&o.fill, "fill", "", "add tests and mutants to the table in this `file`, docs/hazards.md, and run nothing")
	flags.StringVar(&o.root, "root", "", "the repository's `folder` (default: the one around the current folder)")
	flags.StringVar(&o.dir, "dir", "", "the `folder` of the .mut files (default: internal/mutants)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if run != "" {
		var err error
		if o.run, err = regexp.Compile(run); err != nil {
			return o, fmt.Errorf("-run: %w", err)
		}
	}
	if o.root == "" {
		var err error
		if o.root, err = findRoot(); err != nil {
			return o, err
		}
	}
	if o.dir == "" {
		o.dir = filepath.Join(o.root, "internal", "mutants")
	}
	return o, nil
}

// findRoot returns the nearest folder upwards that holds a go.work.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no go.work found upwards: run it inside the repository, or give -root")
		}
		dir = filepath.Dir(dir)
	}
}

// check sees that every mutant's old text stands exactly once in its file.
func check(root string, chosen []mutant, out io.Writer) error {
	var faults []error
	for _, m := range chosen {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		if err == nil {
			_, err = m.apply(string(text))
		}
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d mutants apply\n", len(chosen))
	return nil
}

// runAll runs the chosen mutants on o.workers copies of the repository.
func runAll(ctx context.Context, o options, chosen []mutant, out io.Writer) error {
	temp, err := os.MkdirTemp("", "ibid-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)

	groups := make(chan []mutant)
	results := make(chan result)
	var workers sync.WaitGroup
	copied := make(chan error, max(o.workers, 1))
	for i := range max(o.workers, 1) {
		workers.Go(func() {
			b := bench{root: filepath.Join(temp, fmt.Sprint(i)), timeout: o.timeout}
			if err := copyTree(ctx, o.root, b.root); err != nil {
				copied <- err
			}
			for group := range groups {
				passed := false
				for _, m := range group {
					r := b.run(ctx, m, passed)
					passed = passed || r.verdict != broken
					results <- r
				}
			}
		})
	}
	go func() {
		for _, group := range byTest(chosen) {
			groups <- group
		}
		close(groups)
		workers.Wait()
		close(results)
	}()

	counts := map[verdict]int{}
	for r := range results {
		counts[r.verdict]++
		detail := strings.ReplaceAll(r.detail, "\n", "\n    ")
		fmt.Fprintf(out, "%-8s %5.1fs  %-40s %-12s %s\n", r.verdict, r.took.Seconds(), r.mutant.name, r.mutant.hazard, detail)
	}
	close(copied)
	for err := range copied {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(out, "%d mutants: %d caught, %d survived, %d proved nothing\n",
		len(chosen), counts[caught], counts[survived], counts[broken])
	if n := counts[survived] + counts[broken]; n > 0 {
		return fmt.Errorf("%d of %d mutants were not caught", n, len(chosen))
	}
	return nil
}

// byTest groups mutants by their test, so that each test is seen to pass on the
// intact code once.
func byTest(chosen []mutant) [][]mutant {
	var groups [][]mutant
	index := map[string]int{} // dir and test → its group
	for _, m := range chosen {
		key := m.dir + "\x00" + strings.Join(m.test, "\x00")
		i, known := index[key]
		if !known {
			i = len(groups)
			index[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	return groups
}
