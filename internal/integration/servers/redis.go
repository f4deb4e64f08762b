package servers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Redis is a private Redis server.
type Redis struct {
	process
	Port int
	URL  string
	dir  string
}

// StartRedis starts one, with settings as on its command line: "--appendonly",
// "yes". Unless they say otherwise it keeps nothing on disk.
func StartRedis(settings ...string) (*Redis, error) {
	path, err := find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ibid-redis-")
	if err != nil {
		return nil, err
	}
	r := &Redis{dir: dir}
	if r.Port, err = freePort(); err != nil {
		r.Stop()
		return nil, err
	}
	r.URL = fmt.Sprintf("redis://127.0.0.1:%d", r.Port)
	r.process = process{
		path: path, log: filepath.Join(dir, "log"),
		args: append([]string{
			"--port", strconv.Itoa(r.Port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
			"--daemonize", "no", "--pidfile", filepath.Join(dir, "pid"),
		}, settings...),
	}
	if err := r.Start(); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// Start starts the server again, with the data and port that it had, and
// returns when it answers.
func (r *Redis) Start() error {
	if err := r.start(); err != nil {
		return err
	}
	return r.wait(func() error {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)), time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		pong := make([]byte, 5)
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, pong); err != nil {
			return err
		}
		if string(pong) != "+PONG" {
			return errors.New("still loading")
		}
		return nil
	})
}

// Stop ends the server and deletes its data.
func (r *Redis) Stop() {
	r.stop(syscall.SIGKILL)
	_ = os.RemoveAll(r.dir)
}
