package tour

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// server is one process of the payments service, started by the tour.
type server struct {
	url string // where it listens, without a slash at the end

	cmd    *exec.Cmd
	stdin  io.Closer // the server ends when it is closed
	stderr *tail
	ended  chan struct{} // closed when the process was waited for
}

// startTimeout bounds how long a server may take to listen, stopTimeout how
// long to end when asked to.
const (
	startTimeout = 20 * time.Second
	stopTimeout  = 10 * time.Second
)

// start runs program with args, which must make it print "listening on URL" as
// its first line, and end when its standard input does: so that no server
// outlives the tour, however the tour ends.
func start(ctx context.Context, program string, args []string) (*server, error) {
	s := &server{stderr: &tail{limit: 16 << 10}, ended: make(chan struct{})}
	s.cmd = exec.Command(program, args...)
	s.cmd.Stderr, s.cmd.Env = s.stderr, ownEnviron()
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				ready <- url
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout) // until the process ends
		_ = s.cmd.Wait()                   // how it ended is no news: the tour ends it
		close(s.ended)
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case s.url = <-ready:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("start a server: %s ended at once: %s", strings.Join(args, " "), s.stderr)
	case <-timeout.C:
		err = errors.New("did not listen in time")
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.kill()
	return nil, fmt.Errorf("start a server: %w: %s", err, s.stderr)
}

// kill ends the process as kill -9 does: nothing in it runs any more.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // an error means that it has ended
	<-s.ended
	s.stdin.Close()
}

// end asks the process to end, and kills it if it does not, or at once.
func (s *server) end(atOnce bool) {
	if atOnce {
		s.kill()
		return
	}
	_ = s.stdin.Close() // it was closed when the process is dead
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-s.ended:
	case <-timeout.C:
		s.kill()
	}
}

// tail is a writer that keeps the end of what was written.
type tail struct {
	limit int
	mu    sync.Mutex
	buf   bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - t.limit; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
