package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFill(t *testing.T) {
	t.Parallel()
	const before = `# Table

| row | hazard | test | mutant |
|---|---|---|---|
| 1 | first | TODO | TODO |
| 2 | second | ` + "`ibid.TestNegative`, `ibid.TestGone`" + ` | gone, unseen |
| 12 | a row whose number contains others | TODO | TODO |

Text stays.
`
	const after = `# Table

| row | hazard | test | mutant |
|---|---|---|---|
| 1 | first | ` + "`ibid.TestThirteen`" + ` | ` + "`thirteen-passes`" + ` |
| 2 | second | ` + "`ibid.TestNegative`, `ibid.TestThirteen`" + ` | ` + "`unseen`, `thirteen-passes`" + ` |
| 12 | a row whose number contains others | TODO | TODO |

Text stays.
`
	file := filepath.Join(t.TempDir(), "hazards.md")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // filling what is full changes nothing
		if err := program(t.Context(), []string{"-root", "testdata/fake", "-dir", "testdata/mut", "-fill", file}, t.Output()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != after {
			t.Errorf("got:\n%s\nwant:\n%s", got, after)
		}
	}
}

func TestTestsOfAMutant(t *testing.T) {
	t.Parallel()
	index := testIndex{
		"ibid":     {"TestA": true, "TestAB": true},
		"memstore": {"TestA": true, "FuzzB": true},
		"cmd/ibid": {"TestA": true},
	}
	tests := []struct {
		why, dir, test string
		want           string
	}{
		{"the root", ".", ". -run ^TestA$", "ibid.TestA"},
		{"a package and a sub-test", ".", "./memstore -run ^TestA$/^lost.reply$", "memstore.TestA/lost.reply"},
		{"another module", "cmd/ibid", ". -run=TestA", "cmd/ibid.TestA"},
		{"all that match", ".", "-race -run '^(TestA|TestAB)$' .", "ibid.TestA ibid.TestAB"},
		{"none that match", ".", ". -run TestC", ""},
	}
	for _, tt := range tests {
		args, err := words(tt.test)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i, name := range index.of(mutant{dir: tt.dir, test: args}) {
			if i > 0 {
				got += " "
			}
			got += name
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.why, got, tt.want)
		}
	}
}
