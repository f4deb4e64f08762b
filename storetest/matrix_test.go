package storetest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/storetest"
)

var update = flag.Bool("update", false, "write docs/storetest-matrix.md anew")

const matrixFile = "../docs/storetest-matrix.md"

// target returns a model broken by b. Outside of races no verb is torn: torn or
// not makes no difference there, and the fake clock stands still.
func target(b bug, races bool) storetest.Target {
	broken := func() *model {
		m := newModel()
		b.do(m)
		if !races {
			clear(m.torn)
		}
		return m
	}
	return storetest.Target{
		Open: func(context.Context) (ibid.Store, func() error, error) { return broken(), nil, nil },
		Second: func(_ context.Context, s ibid.Store) (ibid.Store, func() error, error) {
			if s.(*model).alone {
				return broken(), nil, nil
			}
			return s, nil, nil
		},
		Corrupt: func(_ context.Context, s ibid.Store, key ibid.Digest, change func([]byte) []byte) error {
			s.(*model).corrupt(key, change)
			return nil
		},
		Tick:       time.Second,
		Resolution: 1,
		FakeClock:  true,
		Callers:    16,
	}
}

// errUnsure stands for a case whose answer depends on who comes first.
var errUnsure = errors.New("depends on who comes first")

// reds returns, for every case, what is wrong with the model that is broken by
// b; of races, too, if they are always lost.
func reds(t *testing.T, b bug, races bool) []error {
	var errs []error
	for _, c := range storetest.Cases() {
		if c.Races && !races {
			errs = append(errs, errUnsure)
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			err := c.Check(t.Context(), target(b, c.Races))
			if needs := storetest.Needs(""); errors.As(err, &needs) {
				t.Errorf("%s: %v", c.Name, err)
			}
			errs = append(errs, err)
		})
	}
	return errs
}

// The suite finds nothing wrong with the model that the broken stores are made
// of: whatever it finds in them is their own.
func TestUnbroken(t *testing.T) {
	t.Parallel()
	for i, err := range reds(t, bug{do: func(*model) {}}, true) {
		if err != nil {
			t.Errorf("%s: %v", storetest.Cases()[i].Name, err)
		}
	}
}

// Every broken store is caught, and every case catches one: a case that is red
// nowhere proves nothing.
func TestMatrix(t *testing.T) {
	t.Parallel()
	bugs := slices.Concat(brokenClaims, brokenTokens, brokenResults, brokenReadings, brokenFailures, brokenAbilities)
	cases := storetest.Cases()
	red := make([][]error, len(bugs))
	t.Run("stores", func(t *testing.T) {
		for i, b := range bugs {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				red[i] = reds(t, b, sure[b.name])
				if count(red[i]) == 0 {
					t.Errorf("the suite does not catch a store of which this is true: %s", b.name)
				}
			})
		}
	})
	for j, c := range cases {
		if !slices.ContainsFunc(red, func(errs []error) bool { return errs != nil && isRed(errs[j]) && !blunt(errs) }) {
			t.Errorf("no broken store turns this case red: %s", c.Name)
		}
	}
	if t.Failed() {
		return
	}
	text := matrix(cases, bugs, red)
	if testing.Verbose() {
		t.Log(text)
	}
	if *update {
		if err := os.WriteFile(matrixFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := os.ReadFile(matrixFile); err != nil || string(file) != text {
		t.Errorf("%s is stale (%v): run go test ./storetest -run TestMatrix -update", matrixFile, err)
	}
}

// blunt reports whether a store is so broken that a case which is red for it
// shows nothing about the case.
func blunt(errs []error) bool { return 10*count(errs) > len(errs) }

func isRed(err error) bool { return err != nil && !errors.Is(err, errUnsure) }

// count returns how many cases are red.
func count(errs []error) (n int) {
	for _, err := range errs {
		if isRed(err) {
			n++
		}
	}
	return n
}

// matrix renders the cases and what turns them red.
func matrix(cases []storetest.Case, bugs []bug, red [][]error) string {
	var s strings.Builder
	fmt.Fprintf(&s, `# What the contract suite catches

Written by `+"`go test ./storetest -run TestMatrix -update`"+`; the same test fails when this file is stale.

%d cases of package storetest (rows) against %d stores, each broken in one way (columns).
An x says that the case is red for that store. Every column has one. Every row has one from a
store that turns no more than a tenth of the cases red: one that breaks everything shows nothing
about a single case. A ? is a race whose winner decides: it is not counted.

## Broken stores

| # | a store of which this is true | cases that catch it |
|---|---|---|
`, len(cases), len(bugs))
	for i, b := range bugs {
		note := ""
		if blunt(red[i]) {
			note = " (does not count)"
		}
		fmt.Fprintf(&s, "| %d | %s | %d%s |\n", i+1, b.name, count(red[i]), note)
	}
	s.WriteString("\n## Case × broken store\n\n```text\n")
	for _, unit := range []int{100, 10, 1} {
		for i := range bugs {
			fmt.Fprint(&s, (i+1)/unit%10)
		}
		s.WriteByte('\n')
	}
	for j, c := range cases {
		for i := range bugs {
			switch err := red[i][j]; {
			case errors.Is(err, errUnsure):
				s.WriteByte('?')
			case err != nil:
				s.WriteByte('x')
			default:
				s.WriteByte('.')
			}
		}
		fmt.Fprintf(&s, "  %s\n", c.Name)
	}
	s.WriteString("```\n")
	return s.String()
}

// Names tell cases, and broken stores, apart.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	once := func(name string) {
		if seen[name] {
			t.Errorf("%q is there twice", name)
		}
		seen[name] = true
	}
	cases := storetest.Cases()
	if len(cases) < 60 {
		t.Errorf("%d cases, want at least 60", len(cases))
	}
	for _, c := range cases {
		once(c.Name)
		if c.Why == "" || c.Check == nil {
			t.Errorf("%q says no why, or checks nothing", c.Name)
		}
	}
	for _, b := range slices.Concat(brokenClaims, brokenTokens, brokenResults, brokenReadings, brokenFailures, brokenAbilities) {
		once("broken: " + b.name)
	}
}
