package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// mutant is one deliberate fault and the test that must notice it.
type mutant struct {
	name   string
	source string   // where it is written, file:line
	hazard string   // rows of docs/hazards.md, separated by commas, or "-"
	file   string   // from the repository's root, with slashes
	dir    string   // where the test runs, from the repository's root
	test   []string // arguments of go test
	old    string   // stands in file exactly once
	new    string
}

var mutantName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// load reads every *.mut file of dir, sorted by name. It reports every fault it
// finds, not the first alone.
func load(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.mut"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var all []mutant
	var faults []error
	seen := map[string]string{} // name → where it was first used
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		ms, err := parse(filepath.Base(file), string(text))
		faults = append(faults, err)
		for _, m := range ms {
			if first, taken := seen[m.name]; taken {
				faults = append(faults, fmt.Errorf("%s: the name %q is taken by %s", m.source, m.name, first))
			}
			seen[m.name] = m.source
			all = append(all, m)
		}
	}
	return all, errors.Join(faults...)
}

// parse reads the blocks of one file. A block is fields of the form "name:
// value", then the lines under "old:", then the lines under "new:", and ends at
// a line "---" or with the file. Between fields, blank lines and lines that
// begin with # are skipped.
func parse(file, text string) ([]mutant, error) {
	var all []mutant
	var faults []error
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	for start := 0; start < len(lines); {
		end := start
		for end < len(lines) && lines[end] != "---" {
			end++
		}
		m, ok, err := parseBlock(file, start, lines[start:end])
		if err != nil {
			faults = append(faults, err)
		} else if ok {
			all = append(all, m)
		}
		start = end + 1
	}
	return all, errors.Join(faults...)
}

// parseBlock reads one block, whose first line has the index start. It is
// false for a block with nothing in it.
func parseBlock(file string, start int, lines []string) (mutant, bool, error) {
	m := mutant{source: fmt.Sprintf("%s:%d", file, start+1), dir: "."}
	var command string
	fields := map[string]*string{
		"name": &m.name, "hazard": &m.hazard, "file": &m.file, "dir": &m.dir, "test": &command,
	}
	i, named := 0, false
	for ; i < len(lines) && lines[i] != "old:"; i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		field := fields[name]
		if !found || field == nil {
			return m, false, fmt.Errorf("%s:%d: expected name, hazard, file, dir, test or old, got %q", file, start+i+1, line)
		}
		if !named {
			named, m.source = true, fmt.Sprintf("%s:%d", file, start+i+1)
		}
		*field = strings.TrimSpace(value)
	}
	if i == len(lines) {
		if !named {
			return m, false, nil
		}
		return m, false, fmt.Errorf("%s: no line \"old:\"", m.source)
	}
	split := -1
	for j := i + 1; j < len(lines); j++ {
		if lines[j] == "new:" {
			split = j
			break
		}
	}
	if split < 0 {
		return m, false, fmt.Errorf("%s: no line \"new:\"", m.source)
	}
	m.old = strings.Join(lines[i+1:split], "\n")
	m.new = strings.Join(lines[split+1:], "\n")

	var err error
	if m.test, err = words(command); err != nil {
		return m, false, fmt.Errorf("%s: test: %w", m.source, err)
	}
	return m, true, m.check()
}

func (m mutant) check() error {
	fault := func(what string) error { return fmt.Errorf("%s: %s", m.source, what) }
	switch {
	case !mutantName.MatchString(m.name):
		return fault(fmt.Sprintf("name %q: use lower-case words joined by hyphens", m.name))
	case m.hazard == "":
		return fault("no hazard: name the rows, or -")
	case m.file == "" || !filepath.IsLocal(filepath.FromSlash(m.file)):
		return fault(fmt.Sprintf("file %q: give a path from the repository's root", m.file))
	case !filepath.IsLocal(filepath.FromSlash(m.dir)):
		return fault(fmt.Sprintf("dir %q: give a path from the repository's root", m.dir))
	case len(m.test) == 0:
		return fault("no test")
	case strings.TrimSpace(m.old) == "":
		return fault("old is empty")
	case m.old == m.new:
		return fault("new is old")
	}
	return nil
}

// apply returns text with the mutant in it.
func (m mutant) apply(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 {
		return "", fmt.Errorf("%s: the old text stands %d times in %s, want once", m.source, n, m.file)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}

// words splits s at spaces. Single and double quotes keep what they enclose
// together; there is no escape.
func words(s string) ([]string, error) {
	var out []string
	var word strings.Builder
	var quote rune
	open := false // a word has begun, perhaps an empty one
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ' || r == '\t':
			if open {
				out = append(out, word.String())
				word.Reset()
				open = false
			}
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if open {
		out = append(out, word.String())
	}
	return out, nil
}
