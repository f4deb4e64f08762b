// Package redistest starts private redis-server processes for tests, and stands
// between them and their clients.
package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ibid-go/ibid/internal/outside"
)

// Server is one redis-server on a loopback port of its own, with its data in a
// temporary folder.
type Server struct {
	// Addr is where it listens, also after a restart.
	Addr string
	// Dir holds its data.
	Dir string

	t    testing.TB
	port int
	args []string
	env  []string

	mu    sync.Mutex
	cmd   *exec.Cmd
	log   *bytes.Buffer // of cmd
	ended chan struct{} // closed when cmd has
}

// Start starts a server that ends with the test. args are its settings, as on
// its command line: "--appendonly", "yes". Unless they say otherwise it keeps
// nothing on disk. The test is skipped where no redis-server is installed, or
// fails with IBID_TEST_REQUIRE=all.
func Start(t testing.TB, args ...string) *Server { return StartEnv(t, nil, args...) }

// StartEnv is Start with additions to the server's environment.
func StartEnv(t testing.TB, env []string, args ...string) *Server {
	t.Helper()
	Need(t, "redis-server")
	dir, err := os.MkdirTemp("", "ibid-redis-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, Dir: dir, args: args, env: env}
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(dir)
	})
	for attempt := 1; ; attempt++ {
		s.port = freePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		err := s.start()
		if err == nil {
			return s
		}
		if attempt == 5 { // another process may have taken the port meanwhile
			t.Fatalf("redis-server: %v\n%s", err, s.log.String())
		}
	}
}

// Need ends the test where a command is missing, as [outside.Need] says.
func Need(t testing.TB, command string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		outside.Need(t, outside.Missing{What: command, Package: command})
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port <= 55535 { // a cluster's bus listens 10,000 above
			return port
		}
	}
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.Dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--daemonize", "no", "--pidfile", filepath.Join(s.Dir, "pid"),
	}, s.args...)
	cmd := exec.Command("redis-server", args...)
	cmd.Env = append(os.Environ(), s.env...)
	s.log = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed, so this says how
		close(ended)
	}()
	s.cmd, s.ended = cmd, ended
	for deadline := time.Now().Add(10 * time.Second); ; {
		select {
		case <-ended:
			return fmt.Errorf("ended at once")
		default:
		}
		if answer, err := s.do("PING"); err == nil && answer == "PONG" {
			return nil
		}
		if time.Now().After(deadline) {
			cmd.Process.Kill()
			<-ended
			return fmt.Errorf("does not answer")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		<-s.ended
	}
}

// Restart starts a killed server again, on the same port and data.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("restart redis-server: %v\n%s", err, s.log.String())
	}
}

// Stop makes the server stand still until Continue.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue lets a stopped server go on.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(sig) // an error means that it has ended
	}
}

// Do sends a command over a connection of its own and returns the answer as
// text; of an array, its elements a line each.
func (s *Server) Do(words ...string) string {
	s.t.Helper()
	answer, err := s.do(words...)
	if err != nil {
		s.t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return answer
}

func (s *Server) do(words ...string) (string, error) {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	return exchange(c, words...)
}

// Info returns one field of INFO.
func (s *Server) Info(section, field string) string {
	s.t.Helper()
	for line := range strings.Lines(s.Do("INFO", section)) {
		if name, is, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return is
		}
	}
	return ""
}

// Number returns one numeric field of INFO.
func (s *Server) Number(section, field string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.Info(section, field))
	if err != nil {
		s.t.Fatalf("INFO %s %s: %v", section, field, err)
	}
	return n
}

// Counts is what a server had counted at one moment.
type Counts struct {
	Reads int            // reads from its sockets, less those of the observer
	Calls map[string]int // command, in lower case → how often it ran, inside scripts too
}

// Observer reads a server's counters over a connection of its own, one read
// each time.
func (s *Server) Observer() func() Counts {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	asked := 0
	return func() Counts {
		s.t.Helper()
		info, err := exchange(c, "INFO", "everything")
		if err != nil {
			s.t.Fatal(err)
		}
		asked++
		counts := Counts{Calls: make(map[string]int)}
		for line := range strings.Lines(info) {
			name, is, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "total_reads_processed" {
				n, _ := strconv.Atoi(is)
				counts.Reads = n - asked
			}
			if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
				calls, _, _ := strings.Cut(strings.TrimPrefix(is, "calls="), ",")
				counts.Calls[command], _ = strconv.Atoi(calls)
			}
		}
		return counts
	}
}
