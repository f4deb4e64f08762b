package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkFirstRun/rueidis/callers=64-2   1	0.9100 highest	0.8200 lowest	50000 per-s	0.8900 ratio
BenchmarkFirstRun/rueidis/callers=64-2   1	0.9900 highest	0.8000 lowest	50000 per-s	0.8500 ratio
BenchmarkFirstRun/rueidis/callers=64-2   1	0.9000 highest	0.8700 lowest	50000 per-s	0.8800 ratio
BenchmarkFirstRun/rueidis/callers=6-2    1	0.1000 highest	0.1000 lowest	50000 per-s	0.1000 ratio
    bench_test.go:1: replay / select          64 callers: 0.71 (0.66–0.75)    9000/s
    bench_test.go:2: above the bare handler: first 9.50 (engine 8.00)
`

func TestReaders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		why  string
		read reader
		want string
	}{
		{"the median of the medians, the lowest and the highest of all runs", metric("BenchmarkFirstRun/rueidis/callers=64", "ratio", "lowest", "highest"), "0.88 (0.80–0.99)"},
		{"a unit without a spread of its own spreads over the runs", metric("BenchmarkFirstRun/rueidis/callers=64", "ratio", "", ""), "0.88 (0.85–0.89)"},
		{"a line of a log with its spread", logged(`replay / select +64 callers: (\S+) \((\S+)–(\S+)\)`), "0.71 (0.66–0.75)"},
		{"a line of a log without", logged(`handler: first (\S+)`), "9.50"},
		{"what did not run is not measured", metric("BenchmarkFirst", "ratio", "", ""), "not measured"},
		{"another unit is not taken for it", metric("BenchmarkFirstRun/rueidis/callers=64", "rat", "", ""), "not measured"},
	} {
		if m, ok := tt.read(output); m.text(ok) != tt.want {
			t.Errorf("%s: %s, want %s", tt.why, m.text(ok), tt.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		why  string
		row  row
		got  measured
		want string
	}{
		{"all runs reach it", row{atLeast: 0.8}, measured{0.9, 0.8, 1}, "met"},
		{"the median does, some runs do not", row{atLeast: 0.8}, measured{0.9, 0.7, 1}, "met; the spread reaches below"},
		{"some runs do, the median does not", row{atLeast: 0.95}, measured{0.9, 0.7, 1}, "**missed**; the spread reaches it"},
		{"none does", row{atLeast: 1.1}, measured{0.9, 0.7, 1}, "**missed**"},
		{"less is better", row{atMost: 1.4}, measured{1.3, 1.2, 1.4}, "met"},
		{"less is better, and there is too much", row{atMost: 1.4}, measured{1.6, 1.5, 1.7}, "**missed**"},
		{"stated without a goal", row{}, measured{1, 1, 1}, ""},
	} {
		if got := tt.row.verdict(tt.got, true); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.why, got, tt.want)
		}
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "doc.md")
	const text = "a\n<!-- measured: redis -->\nold\n<!-- end -->\nb\n<!-- measured: http -->\nstays\n<!-- end -->\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(file, "redis", "new\n"); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(file)
	if want := strings.Replace(text, "old\n", "\nnew\n\n", 1); string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if err := replace(file, "mariadb", "new\n"); err == nil {
		t.Error("a room without a place was not noticed")
	}
}

// A room that has no place in the document would be measured and then lost.
func TestDocumentHasAPlaceForEachRoom(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rooms {
		if !strings.Contains(string(b), "<!-- measured: "+r.name+" -->\n") {
			t.Errorf("docs/performance.md has no place for %s", r.name)
		}
		for _, row := range r.rows {
			if _, err := os.Stat(filepath.Join("../..", row.command.dir)); err != nil {
				t.Error(err)
			}
		}
	}
}
