package tour

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reach is a way to a store that can be cut: a forwarder in front of the tour's
// own server, or of a redis-server of the scene.
type reach struct {
	store string // its URL, through the forwarder
	*forwarder
	end func()
}

// reachable returns a store that can be made unreachable. The store of the tour
// is used where it is one server without TLS; else a Redis server is started.
func (s *stage) reachable(ctx context.Context) (*reach, error) {
	u, err := url.Parse(s.opts.Store)
	if err == nil && !strings.Contains(s.opts.Store, "+") {
		for scheme, port := range map[string]string{"redis": "6379", "valkey": "6379", "postgres": "5432", "postgresql": "5432", "mysql": "3306", "mariadb": "3306"} {
			if u.Scheme != scheme || u.Hostname() == "" {
				continue
			}
			if u.Port() != "" {
				port = u.Port()
			}
			f, err := forward(net.JoinHostPort(u.Hostname(), port))
			if err != nil {
				return nil, err
			}
			u.Host = f.address()
			return &reach{store: u.String(), forwarder: f, end: f.close}, nil
		}
	}
	address, end, err := startRedis(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	f, err := forward(address)
	if err != nil {
		end()
		return nil, err
	}
	return &reach{store: "redis://" + f.address(), forwarder: f, end: func() { f.close(); end() }}, nil
}

// startRedis starts a server of the scene's own, with its data in dir.
func startRedis(ctx context.Context, dir string) (address string, end func(), err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, missingError("no store of the tour can be cut off, and redis-server is not installed (Debian: apt-get install redis-server)")
	}
	for range 5 { // another process may take the port meanwhile
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, fmt.Errorf("find a port: %w", err)
		}
		address = l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(address)
		cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes",
			"--appendfsync", "always", "--daemonize", "no", "--pidfile", filepath.Join(dir, "redis.pid"))
		cmd.SysProcAttr = dieWithParent()
		if err := cmd.Start(); err != nil {
			return "", nil, fmt.Errorf("start redis-server: %w", err)
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // the scene ends it
			close(ended)
		}()
		end = func() {
			_ = cmd.Process.Kill()
			<-ended
		}
		up, err := until(ctx, startTimeout, func() (bool, error) {
			select {
			case <-ended:
				return true, nil
			default:
			}
			return answersPing(address), nil
		})
		if err == nil && up && answersPing(address) {
			return address, end, nil
		}
		end()
	}
	return "", nil, fmt.Errorf("redis-server does not start at %s", address)
}

func answersPing(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	pong := make([]byte, len("+PONG"))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	_, err = io.ReadFull(conn, pong)
	return err == nil && string(pong) == "+PONG"
}

// forwarder passes TCP connections on to a server, and can be cut.
type forwarder struct {
	listener net.Listener
	to       string
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	isCut bool
}

func forward(to string) (*forwarder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	f := &forwarder{listener: l, to: to, conns: map[net.Conn]bool{}}
	f.serving.Go(f.serve)
	return f, nil
}

func (f *forwarder) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(f.listener.Addr().(*net.TCPAddr).Port))
}

// cut breaks every connection and, until it is called with false, every new one.
func (f *forwarder) cut(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCut = on
	for c := range f.conns {
		if on {
			c.Close()
		}
	}
}

func (f *forwarder) close() {
	f.listener.Close()
	f.cut(true)
	f.serving.Wait()
}

func (f *forwarder) serve() {
	for {
		in, err := f.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", f.to)
		if err != nil {
			in.Close()
			continue
		}
		if !f.hold(in, out) {
			in.Close()
			out.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			f.serving.Go(func() {
				_, _ = io.Copy(way[1], way[0]) // until either side ends
				in.Close()
				out.Close()
				f.drop(in, out)
			})
		}
	}
}

func (f *forwarder) hold(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		f.conns[c] = true
	}
	return !f.isCut
}

func (f *forwarder) drop(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		delete(f.conns, c)
	}
}
