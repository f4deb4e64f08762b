package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a dozen test programs")
	}
	all, err := load("testdata/mut")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]mutant{}
	for _, m := range all {
		byName[m.name] = m
	}
	root := t.TempDir()
	if err := copyTree(t.Context(), "testdata/fake", root); err != nil {
		t.Fatal(err)
	}
	b := bench{root: root, timeout: 2 * time.Second}

	tests := []struct {
		name, why string
		want      verdict
		detail    string
	}{
		{"thirteen-passes", "its test fails", caught, "TestThirteen"},
		{"unseen", "its test looks elsewhere", survived, "TestNegative"},
		{"does-not-compile", "the compiler caught it, not the test", broken, "does not compile"},
		{"test-was-red", "a test that always fails proves nothing", broken, "on the intact code"},
		{"no-such-test", "go test succeeds when nothing matches", broken, "no test was run"},
		{"not-found", "the code has moved on", broken, "stands 0 times"},
		{"stands-twice", "the place is not named", broken, "stands 2 times"},
		{"hangs", "a test that hangs has noticed", caught, "fake"},
		{"exits", "a process that dies fails its package", caught, "fake"},
	}
	if len(tests) != len(all) {
		t.Errorf("%d mutants, %d rows", len(all), len(tests))
	}
	for _, tt := range tests {
		r := b.run(t.Context(), byName[tt.name], false)
		if r.verdict != tt.want || !strings.Contains(r.detail, tt.detail) {
			t.Errorf("%s (%s): %s %q, want %s with %q", tt.name, tt.why, r.verdict, r.detail, tt.want, tt.detail)
		}
	}
	before, _ := os.ReadFile("testdata/fake/gate.go")
	after, _ := os.ReadFile(filepath.Join(root, "gate.go"))
	if !bytes.Equal(before, after) {
		t.Error("the mutated file was not restored")
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	tests := []struct {
		why   string
		args  string
		long  bool
		want  string // in the output
		fault string // in the error; empty for none
	}{
		{"a caught mutant is success", "-run ^thirteen", true, "1 mutants: 1 caught, 0 survived", ""},
		{"a survivor is failure", "-run ^(thirteen|unseen) -j 1", true, "SURVIVED", "1 of 2 mutants were not caught"},
		{"a mutant that proves nothing is failure", "-run ^no-such", true, "ERROR", "1 of 1 mutants"},
		{"a list runs nothing", "-list", false, "stands-twice", ""},
		{"a check names what no longer applies", "-check", false, "", "stands 0 times"},
		{"a check of what applies succeeds", "-check -run ^hangs", false, "1 mutants apply", ""},
		{"a misspelt name is not success", "-run nothing", false, "", "no mutant matches"},
		{"a bad regexp is named", "-run (", false, "", "-run"},
		{"a stray argument is refused", "hangs", false, "", "unexpected argument"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			t.Parallel()
			if tt.long && testing.Short() {
				t.Skip("builds test programs")
			}
			var out bytes.Buffer
			args := append([]string{"-root", "testdata/fake", "-dir", "testdata/mut"}, strings.Fields(tt.args)...)
			err := program(t.Context(), args, &out)
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("printed %q, want %q in it", out.String(), tt.want)
			}
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("error %v, want %q in it", err, tt.fault)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	const good = "name: a\nhazard: 1\nfile: x/y.go\ntest: ./x -run '^TestA$'\nold:\n\tif a {\n\n\t}\nnew:\n\tif b {\n"
	ms, err := parse("f.mut", "# why\n\n"+good+"---\n\n"+strings.Replace(good, "name: a", "name: b\ndir: cmd/ibid", 1)+"---\n")
	if err != nil || len(ms) != 2 {
		t.Fatalf("%d mutants, %v", len(ms), err)
	}
	want := mutant{
		name: "a", source: "f.mut:3", hazard: "1", file: "x/y.go", dir: ".",
		test: []string{"./x", "-run", "^TestA$"}, old: "\tif a {\n\n\t}", new: "\tif b {",
	}
	if !reflect.DeepEqual(ms[0], want) {
		t.Errorf("got  %+v\nwant %+v", ms[0], want)
	}
	if ms[1].dir != "cmd/ibid" {
		t.Errorf("dir %q", ms[1].dir)
	}

	faults := []struct{ why, from, to, want string }{
		{"a name is needed", "name: a", "", "name"},
		{"a name can be given to -run", "name: a", "name: A b", "name"},
		{"a hazard is named or denied", "hazard: 1", "", "hazard"},
		{"a file is inside the repository", "x/y.go", "../y.go", "file"},
		{"a test is needed", "test: ./x -run '^TestA$'", "", "no test"},
		{"a quote is closed", "A$'", "A$", "not closed"},
		{"an unknown field is a slip", "hazard:", "hazzard:", `"hazzard: 1"`},
		{"an empty old stands everywhere", "\tif a {\n\n\t}\n", "", "old is empty"},
		{"old is there", "old:\n", "", "expected name"},
		{"new is there", "new:\n", "", `no line "new:"`},
		{"new differs", "if b {", "if a {\n\n\t}", "new is old"},
	}
	for _, tt := range faults {
		text := strings.Replace(good, tt.from, tt.to, 1)
		if text == good {
			t.Fatalf("%s: the row changes nothing", tt.why)
		}
		if _, err := parse("f.mut", text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", tt.why, err, tt.want)
		}
	}
}

func TestLoadRefusesTheSameNameTwice(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/mut/all.mut")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.mut", "b.mut"} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := load(dir); err == nil || !regexp.MustCompile(`b\.mut:\d+: the name "hangs" is taken by a\.mut:\d+`).MatchString(err.Error()) {
		t.Errorf("error %v", err)
	}
}

func TestCopyWithoutGitLeavesOutHiddenNames(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	names := map[string]bool{"a.go": true, "sub/b.go": true, ".hidden/c.go": false, ".d": false} // path → is copied
	for name := range names {
		path := filepath.Join(from, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range names {
		_, err := os.Stat(filepath.Join(to, filepath.FromSlash(name)))
		if (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}
