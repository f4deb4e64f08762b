package main

import (
	"os"
	"slices"
	"testing"
)

// required are the rows of docs/hazards.md that need no outside server to be
// tested: those of the engine and those of the middleware.
var required = []string{
	"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "14", "15", "16", "17",
	"33", "35", "37", "38", "39", "40", "41", "42", "43", "44", "45", "46", "47", "48",
	"49", "50", "51", "52", "54", "55", "56", "65",
}

func TestHazardsDocument(t *testing.T) {
	t.Parallel()
	const root = "../.."
	text, err := os.ReadFile(root + "/docs/hazards.md")
	if err != nil {
		t.Fatal(err)
	}
	index, err := indexTests(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]mutant{}
	for _, m := range all {
		byName[m.name] = m
	}

	present := map[string]bool{}
	for _, r := range hazardRows(string(text)) {
		if present[r.row] {
			t.Errorf("row %s stands twice", r.row)
		}
		present[r.row] = true
		if len(r.tests) == 0 {
			t.Errorf("row %s (%s) names no test", r.row, r.hazard)
		}
		if len(r.mutants) == 0 {
			t.Errorf("row %s (%s) names no mutant", r.row, r.hazard)
		}
		for _, name := range r.tests {
			if !index.has(name) {
				t.Errorf("row %s: there is no test %s", r.row, name)
			}
		}
		for _, name := range r.mutants {
			m, known := byName[name]
			switch {
			case !known:
				t.Errorf("row %s: there is no mutant %s", r.row, name)
			case !m.against(r.row):
				t.Errorf("row %s: %s names its hazard as %q (%s)", r.row, name, m.hazard, m.source)
			case !slices.ContainsFunc(index.of(m), func(test string) bool { return slices.Contains(r.tests, test) }):
				t.Errorf("row %s: %s runs none of the row's tests, but %v (%s)", r.row, name, index.of(m), m.source)
			}
		}
	}
	for _, row := range required {
		if !present[row] {
			t.Errorf("row %s is missing", row)
		}
	}

	// Every row a mutant names is there for a reader to find.
	for _, m := range all {
		for _, row := range cell(m.hazard) {
			if row != "-" && !present[row] {
				t.Errorf("%s: hazard %s has no row in docs/hazards.md", m.source, row)
			}
		}
	}
}
