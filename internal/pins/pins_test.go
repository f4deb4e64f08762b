// Package pins_test holds what the root module may depend on: nothing.
package pins_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/ibid-go/ibid"

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Name       string
	Standard   bool
	Deps       []string // import paths, transitive, without those of tests
	Module     *struct{ Path string }
}

func TestRootRequiresNothing(t *testing.T) {
	t.Parallel()
	var mod struct {
		Module  struct{ Path string }
		Require []struct{ Path string }
		Replace []struct{ Old struct{ Path string } }
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal(run(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	if mod.Module.Path != module {
		t.Errorf("go.mod is that of %q", mod.Module.Path)
	}
	if len(mod.Require)+len(mod.Replace)+len(mod.Tool) > 0 {
		t.Errorf("go.mod has requires %v, replaces %v, tools %v: users would inherit them", mod.Require, mod.Replace, mod.Tool)
	}
	if _, err := os.Stat("../../go.sum"); !errors.Is(err, os.ErrNotExist) {
		t.Error("go.sum exists: something is required")
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	all := list(t)
	libraries := 0
	for path, p := range all {
		if p.Standard {
			continue
		}
		if p.Module == nil || p.Module.Path != module {
			t.Errorf("%s is reached from the root module: it may import the standard library and itself", path)
			continue
		}
		if p.Name == "main" || strings.Contains(path, "/internal/") {
			continue // an internal package that users link is among the Deps of one that they import
		}
		libraries++
		for _, dep := range p.Deps {
			// It registers flags in every program that links it.
			if dep == "testing" || strings.HasPrefix(dep, "testing/") {
				t.Errorf("%s links %s: users' programs would, too", path, dep)
			}
		}
	}
	if libraries == 0 || all[module].ImportPath == "" {
		t.Errorf("%d library packages found, the root among them: %v", libraries, all[module].ImportPath != "")
	}
}

// list returns the packages of the root module and all they depend on.
func list(t *testing.T) map[string]listed {
	t.Helper()
	all := map[string]listed{} // import path → package
	packages := json.NewDecoder(bytes.NewReader(run(t, "list", "-deps", "-json=ImportPath,Name,Standard,Deps,Module", "./...")))
	for {
		var p listed
		err := packages.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// run runs the go command in the root module, without the workspace.
func run(t *testing.T, args ...string) []byte {
	t.Helper()
	touch(t)
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = "../.."
	command.Env = append(os.Environ(), "GOWORK=off")
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, problems.Bytes())
	}
	return out
}

// touch looks at every file the go command will read: go test repeats a result
// from its cache unless a file changed that the test itself has looked at.
func touch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // some other test's file
		}
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") || entry.Name() == "go.mod" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
