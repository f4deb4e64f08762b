// Command benchtable runs the benchmarks of one room after the other and writes
// their tables: what is compared with what, the target, what was measured and
// how far it spread, and whether that is enough.
//
//	go run ./internal/benchtable [-update docs/performance.md] [ROOM…]
//
// Without rooms it runs all. It prints Markdown, or puts each table between the
// lines <!-- measured: ROOM --> and <!-- end --> of the file. It does not end
// with an error when a target is missed: that is for the reader to see.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	update := flag.String("update", "", "put the tables into this `file`")
	verbose := flag.Bool("v", false, "show what the benchmarks print")
	flag.Parse()
	if err := benchmark(*update, *verbose, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

func benchmark(update string, verbose bool, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(rooms, func(r room) bool { return r.name == name }) {
			return fmt.Errorf("no room is called %q", name)
		}
	}
	broken := 0
	for _, r := range rooms {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		before := machine()
		outputs := make(map[command]string)
		for _, c := range r.commands() {
			fmt.Fprintf(os.Stderr, "== %s: %s\n", r.name, c)
			output, err := c.run()
			if verbose || err != nil {
				fmt.Fprint(os.Stderr, output)
			}
			if err != nil {
				broken++
				fmt.Fprintf(os.Stderr, "benchtable: %s: %v\n", c, err)
			}
			outputs[c] = output
		}
		text := r.table(outputs) + "\n" + before + "\n"
		if update == "" {
			fmt.Printf("## %s\n\n%s\n", r.name, text)
		} else if err := replace(update, r.name, text); err != nil {
			return err
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d commands failed", broken)
	}
	return nil
}

// command is one run of go test.
type command struct {
	dir  string // from the root of the repository
	args string // as a shell reads them
}

func (c command) String() string {
	if c.dir == "" {
		return "go test " + c.args
	}
	return "(cd " + c.dir + " && go test " + c.args + ")"
}

func (c command) run() (output string, err error) {
	cmd := exec.Command("sh", "-c", "exec go test "+c.args)
	cmd.Dir = filepath.Join(".", c.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// machine says where and when, and how busy it was.
func machine() string {
	model := "an unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(info); m != nil {
		model = string(m[1])
	}
	load := "unknown"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(b))[:2], " and ")
	}
	commit, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	return fmt.Sprintf("%s, commit %s, %s %s/%s, %d × %s; load average before it %s (1 and 5 minutes).",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), strings.TrimSpace(string(commit)), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model, load)
}

// replace puts a room's text between its marks.
func replace(file, room, text string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	start := "<!-- measured: " + room + " -->\n"
	head, rest, ok := strings.Cut(string(b), start)
	if !ok {
		return fmt.Errorf("%s has no line %q", file, strings.TrimSpace(start))
	}
	_, tail, ok := strings.Cut(rest, "<!-- end -->")
	if !ok {
		return fmt.Errorf("%s: %s has no end", file, room)
	}
	return os.WriteFile(file, []byte(head+start+"\n"+text+"\n<!-- end -->"+tail), 0o644)
}
