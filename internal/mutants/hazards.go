package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// hazardRow is one row of the table of docs/hazards.md.
type hazardRow struct {
	line    int // index among the lines of the file
	row     string
	hazard  string
	tests   []string // package.TestName or package.TestName/sub, see testIndex
	mutants []string // names
}

var hazardLine = regexp.MustCompile(`^\| *(\d+) *\|([^|]*)\|([^|]*)\|([^|]*)\|$`)

// hazardRows returns the rows of the table in text, top to bottom.
func hazardRows(text string) []hazardRow {
	var rows []hazardRow
	for i, line := range strings.Split(text, "\n") {
		if m := hazardLine.FindStringSubmatch(line); m != nil {
			rows = append(rows, hazardRow{
				line: i, row: m[1], hazard: strings.TrimSpace(m[2]), tests: cell(m[3]), mutants: cell(m[4]),
			})
		}
	}
	return rows
}

// cell returns the names in a cell of the table. TODO is no name.
func cell(s string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(s, "TODO", ""), func(r rune) bool { return strings.ContainsRune("`, ;", r) })
}

func (r hazardRow) String() string {
	show := func(names []string) string {
		if len(names) == 0 {
			return "TODO"
		}
		return "`" + strings.Join(names, "`, `") + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", r.row, r.hazard, show(r.tests), show(r.mutants))
}

// fill adds the mutants of each row, and their tests, to the table in file.
// What is there stays, unless it names a mutant or a test that is gone.
func fill(root, file string, all []mutant) error {
	index, err := indexTests(root)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, m := range all {
		known[m.name] = true
	}
	lines := strings.Split(string(text), "\n")
	for _, r := range hazardRows(string(text)) {
		tests, mutants := only(r.tests, index.has), only(r.mutants, func(name string) bool { return known[name] })
		for _, m := range all {
			if m.against(r.row) {
				mutants = append(mutants, m.name)
				tests = append(tests, index.of(m)...)
			}
		}
		r.tests, r.mutants = distinct(tests), distinct(mutants)
		lines[r.line] = r.String()
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644)
}

// against is true when the mutant names the row.
func (m mutant) against(row string) bool {
	for _, r := range strings.Split(m.hazard, ",") {
		if strings.TrimSpace(r) == row {
			return true
		}
	}
	return false
}

// testIndex holds the tests of every module of the repository: package →
// names. A package is called by its folder, the root by "ibid".
type testIndex map[string]map[string]bool

func indexTests(root string) (testIndex, error) {
	names, err := walked(root)
	if err != nil {
		return nil, err
	}
	index := testIndex{}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.ToSlash(name), "testdata/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		in := packageName(path.Dir(filepath.ToSlash(name)))
		if index[in] == nil {
			index[in] = map[string]bool{}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && isTest.MatchString(f.Name.Name) {
				index[in][f.Name.Name] = true
			}
		}
	}
	return index, nil
}

var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)([^a-z]|$)`)

func packageName(dir string) string {
	if dir == "." {
		return "ibid"
	}
	return dir
}

// has is true when name, package.TestName or package.TestName/sub, is a test.
// Whether it has such a sub-test is not known without running it.
func (x testIndex) has(name string) bool {
	in, test, found := cutTest(name)
	test, _, _ = strings.Cut(test, "/")
	return found && x[in][test]
}

// cutTest cuts at the last dot in front of the test's name; a folder may have dots, too.
func cutTest(name string) (in, test string, found bool) {
	m := testName.FindStringSubmatch(name)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

var testName = regexp.MustCompile(`^(.+?)\.((?:Test|Fuzz|Example).*)$`)

// of returns the tests that the mutant runs, as far as its -run tells.
func (x testIndex) of(m mutant) []string {
	pattern, in := "", ""
	for i := 0; i < len(m.test); i++ {
		arg := m.test[i]
		name, value, joined := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		switch {
		case strings.TrimLeft(name, "-") == "run" && strings.HasPrefix(arg, "-"):
			if !joined && i+1 < len(m.test) {
				i++
				value = m.test[i]
			}
			pattern = value
		case strings.HasPrefix(arg, ".") && in == "":
			in = packageName(path.Join(m.dir, arg))
		}
	}
	pattern, sub, _ := strings.Cut(pattern, "/")
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil
	}
	sub = strings.NewReplacer("^", "", "$", "", `\`, "").Replace(sub)
	if sub != "" {
		sub = "/" + sub
	}
	var tests []string
	for test := range x[in] {
		if re.MatchString(test) {
			tests = append(tests, in+"."+test+sub)
		}
	}
	sort.Strings(tests)
	return tests
}

func only(names []string, keep func(string) bool) []string {
	var kept []string
	for _, name := range names {
		if keep(name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// distinct drops repetitions and keeps the order.
func distinct(names []string) []string {
	seen := map[string]bool{}
	return only(names, func(name string) bool {
		first := !seen[name]
		seen[name] = true
		return first
	})
}
