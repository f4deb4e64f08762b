package tour

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// clientKilled kills the client between send and answer, and starts it again:
// first one that forgets its key with its process, then one with a journal.
func clientKilled(ctx context.Context, s *stage) error {
	server, err := s.mainServer(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		order   string
		journal string
		charges int
	}{
		{"o-no-journal", "", 2},
		{"o-journal", filepath.Join(s.dir, "journal-"+s.id), 1},
	} {
		args := []string{"pay", server, s.order(c.order)}
		if c.journal != "" {
			args = append(args, "--journal", c.journal)
		}
		killed := exec.CommandContext(ctx, s.opts.Program, append(args, "--hold", "1s")...)
		if err := killed.Start(); err != nil {
			return fmt.Errorf("start a client: %w", err)
		}
		err := s.untilCharged(ctx, server, c.order)
		_ = killed.Process.Kill() // an error means that it has ended
		_ = killed.Wait()
		if err != nil {
			return err
		}
		s.step("$ ibid "+strings.Join(append(args, "--hold", "1s"), " "),
			fmt.Sprintf("$ kill -9 %d: the order is charged, the client dead, no answer arrived", killed.Process.Pid))
		out, err := exec.CommandContext(ctx, s.opts.Program, args...).CombinedOutput()
		s.step("$ ibid "+strings.Join(args, " "), strings.TrimSpace(string(out)))
		if err != nil {
			return &BrokenError{What: "the client that was started again", Expected: "success", Seen: strings.TrimSpace(string(out))}
		}
		if err := s.ledger(ctx, server, c.order, c.charges); err != nil {
			return err
		}
	}
	return nil
}
