package pins_test

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a link or an image of Markdown; reference is the definition of one.
var (
	link      = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	reference = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s+(\S+)`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```")
)

// A link to a file that moved is noticed here rather than by a reader.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	documents, links := 0, 0
	walk(t, func(path string) {
		if filepath.Ext(path) != ".md" {
			return
		}
		documents++
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := fenced.ReplaceAllString(string(b), "")
		for _, m := range append(link.FindAllStringSubmatch(text, -1), reference.FindAllStringSubmatch(text, -1)...) {
			links++
			if problem := resolve(path, m[1]); problem != "" {
				t.Errorf("%s: %s: %s", path, m[1], problem)
			}
		}
	})
	if documents < 5 || links < 20 {
		t.Errorf("%d documents and %d links found: the test looks in the wrong place", documents, links)
	}
}

// resolve says what is wrong with a link of a document; addresses of the web
// are taken for good.
func resolve(document, to string) (problem string) {
	u, err := url.Parse(to)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" {
		return ""
	}
	target := document
	if u.Path != "" {
		target = filepath.Join(filepath.Dir(document), u.Path)
	}
	info, err := os.Stat(target)
	if err != nil {
		return "there is no such file"
	}
	if u.Fragment == "" || info.IsDir() || filepath.Ext(target) != ".md" {
		return ""
	}
	b, err := os.ReadFile(target)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(fenced.ReplaceAllString(string(b), "")) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' && anchor(title) == u.Fragment {
			return ""
		}
		if strings.Contains(line, `id="`+u.Fragment+`"`) || strings.Contains(line, `name="`+u.Fragment+`"`) {
			return ""
		}
	}
	return "there is no such heading"
}

// anchor is what a heading is called in a link.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r > 127 && r != '–' && r != '·' && r != '→' && r != '—' && r != '≥' && r != '×' && r != '’' && r != '…':
			return r
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		default:
			return -1
		}
	}, strings.ToLower(strings.TrimSpace(title)))
}

// Each package says what it is for, once; one that users import does so in
// doc.go, unless it is a single file.
func TestPackagesAreDocumented(t *testing.T) {
	t.Parallel()
	type about struct{ files, comments, docs int }
	packages := map[string]*about{} // folder → what was found
	walk(t, func(path string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		p := packages[filepath.Dir(path)]
		if p == nil {
			p = new(about)
			packages[filepath.Dir(path)] = p
		}
		p.files++
		if file.Doc != nil {
			p.comments++
		}
		if filepath.Base(path) == "doc.go" || file.Name.Name == "main" {
			p.docs++
		}
	})
	if len(packages) < 20 {
		t.Errorf("%d packages found: the test looks in the wrong place", len(packages))
	}
	for dir, p := range packages {
		if p.comments != 1 {
			t.Errorf("%s: %d of its files have a package comment, one should", dir, p.comments)
		}
		if p.files > 1 && p.docs == 0 && !strings.Contains(dir, "/internal/") {
			t.Errorf("%s: users import it, and it has no doc.go", dir)
		}
	}
}

// walk visits the files of every module, but those that tests keep as data.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // some other test's file
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !entry.IsDir():
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
