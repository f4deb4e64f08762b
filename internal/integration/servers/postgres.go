package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a private PostgreSQL server.
type Postgres struct {
	process
	Port int
	// URL names the database "postgres"; everybody may connect.
	URL string
	dir string
}

// StartPostgres starts one, with settings as in "fsync=off". Its data is empty.
func StartPostgres(settings ...string) (*Postgres, error) {
	postgres, err := find("postgres", "postgresql", "/usr/lib/postgresql/*/bin/postgres", "/usr/local/pgsql/bin/postgres")
	if err != nil {
		return nil, err
	}
	initdb, err := find("initdb", "postgresql", filepath.Join(filepath.Dir(postgres), "initdb"))
	if err != nil {
		return nil, err
	}
	as, err := asUser("postgres")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ibid-postgres-")
	if err != nil {
		return nil, err
	}
	p := &Postgres{dir: dir}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	if err := run(as, dir, initdb, "--no-sync", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"); err != nil {
		p.Stop()
		return nil, err
	}
	if p.Port, err = freePort(); err != nil {
		p.Stop()
		return nil, err
	}
	p.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", p.Port)
	p.process = process{
		path: postgres, as: as, log: filepath.Join(dir, "log"),
		args: []string{"-D", data, "-p", strconv.Itoa(p.Port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200"},
	}
	for _, s := range settings {
		p.args = append(p.args, "-c", s)
	}
	if as != nil {
		if err := os.WriteFile(p.log, nil, 0o666); err != nil {
			return nil, err
		}
	}
	if err := p.Start(); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Start starts the server again, with the data and port that it had, and
// returns when it answers.
func (p *Postgres) Start() error {
	if err := p.start(); err != nil {
		return err
	}
	return p.wait(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.URL)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// Kill ends the server and all of its processes as kill -9 does, and returns
// when they are gone.
func (p *Postgres) Kill() {
	children := childrenOf(p.Pid())
	p.process.Kill()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range children {
		for end := time.Now().Add(10 * time.Second); alive(pid) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
}

// Pause stops the server and all of its processes until Continue.
func (p *Postgres) Pause() { p.signalAll(syscall.SIGSTOP) }

// Continue ends a Pause.
func (p *Postgres) Continue() { p.signalAll(syscall.SIGCONT) }

func (p *Postgres) signalAll(sig syscall.Signal) {
	_ = p.Signal(sig)
	for _, pid := range childrenOf(p.Pid()) {
		_ = syscall.Kill(pid, sig)
	}
}

// Processes returns the IDs of the server's processes, but for the first.
func (p *Postgres) Processes() []int { return childrenOf(p.Pid()) }

// Data is the folder of the server's data.
func (p *Postgres) Data() string { return filepath.Join(p.dir, "data") }

// Stop ends the server and deletes its data.
func (p *Postgres) Stop() {
	p.stop(syscall.SIGQUIT) // at once, without a checkpoint
	_ = os.RemoveAll(p.dir)
}
