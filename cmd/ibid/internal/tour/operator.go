package tour

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// What an operator does in a scene, with the program's own commands.

// ownEnviron is the environment without the program's own variables: a process
// of the tour is told everything by its flags.
func ownEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "IBID_") })
}

// keys runs ibid keys over the tour's store.
func (s *stage) keys(ctx context.Context, args ...string) (string, error) {
	args = slices.Concat([]string{"keys"}, args, []string{"--store", s.opts.Store})
	if s.opts.SecretFile != "" {
		args = append(args, "--secret-file", s.opts.SecretFile)
	}
	cmd := exec.CommandContext(ctx, s.opts.Program, args...)
	cmd.Env = ownEnviron()
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// keyFlags name the key of r to ibid keys.
func keyFlags(r request) []string {
	return []string{"--scope", r.user, "--key", strings.Trim(r.key, `"`), "--method", "POST", "--path", r.path}
}

// resolve says what became of r, as outcome has it, and shows the command.
func (s *stage) resolve(ctx context.Context, r request, outcome ...string) error {
	args := slices.Concat([]string{"resolve"}, keyFlags(r), outcome)
	shown := "$ ibid keys " + strings.Join(quoted(args), " ")
	out, err := s.keys(ctx, args...)
	s.step(shown, out)
	if err != nil {
		return &BrokenError{What: shown, Expected: "success", Seen: out}
	}
	return nil
}

func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if strings.ContainsAny(a, " {}\"'") {
			out[i] = "'" + a + "'"
		}
	}
	return out
}

// untilInProgress waits until the store holds a claim of r. Asking the service
// would claim it.
func (s *stage) untilInProgress(ctx context.Context, r request) error {
	last := ""
	begun, err := until(ctx, patience, func() (bool, error) {
		out, err := s.keys(ctx, append([]string{"get", "--json"}, keyFlags(r)...)...)
		if err != nil {
			return false, fmt.Errorf("ibid keys get: %w: %s", err, out)
		}
		last = out
		var k struct{ State string }
		return json.Unmarshal([]byte(out), &k) == nil && k.State == "in progress", nil
	})
	if err != nil || begun {
		return err
	}
	return fmt.Errorf("the claim of %s never showed: %s", r.key, last)
}
