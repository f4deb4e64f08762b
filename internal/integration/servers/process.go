package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ibid-go/ibid/internal/outside"
)

// Missing is the error of a server that is not installed.
type Missing = outside.Missing

// Need is [outside.Need], for tests that start a server.
func Need(t testing.TB, err error) {
	t.Helper()
	outside.Need(t, err)
}

// find returns the path of a binary: the newest that matches one of globs, or
// the one in PATH.
func find(name, pkg string, globs ...string) (string, error) {
	for _, g := range globs {
		if paths, _ := filepath.Glob(g); len(paths) > 0 {
			return paths[len(paths)-1], nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", Missing{What: name, Package: pkg}
	}
	return path, nil
}

// process is one server process, which may be ended and started again.
type process struct {
	path string
	args []string
	as   *syscall.Credential // nil to run as this user
	log  string              // file

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = filepath.Dir(p.log)
	cmd.SysProcAttr = attributes(p.as)
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go func(done chan struct{}) { // ends with the process, which stop waits for
		_ = cmd.Wait()
		close(done)
	}(p.done)
	return nil
}

// Pid returns the server's process ID.
func (p *process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Signal sends sig to the server's process.
func (p *process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Signal(sig)
}

// Kill ends the server as kill -9 does, and returns when it is gone.
func (p *process) Kill() { p.stop(syscall.SIGKILL) }

func (p *process) stop(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// ended reports whether the process is gone.
func (p *process) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of what the server logged.
func (p *process) tail() string {
	b, _ := os.ReadFile(p.log)
	return string(b[max(0, len(b)-2000):])
}

// wait asks ready until it agrees, the process ends, or 30 s are over.
func (p *process) wait(ready func() error) error {
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
		if p.ended() {
			break
		}
	}
	return fmt.Errorf("%s does not start: %w\n%s", p.path, err, p.tail())
}

// childrenOf returns the processes that pid started.
func childrenOf(pid int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		var state string
		var parent int
		if _, after, ok := strings.Cut(string(b), ") "); ok {
			_, _ = fmt.Sscan(after, &state, &parent)
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(after, "Z")
}

// freePort returns a port that nothing listens on, at this moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// asUser returns whom a server runs as that refuses to run as root; nil where
// this process is not root.
func asUser(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// run runs a command to its end.
func run(as *syscall.Credential, dir, path string, args ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = attributes(as)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", path, strings.Join(args, " "), err, out)
	}
	return nil
}
