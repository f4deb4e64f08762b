package servers

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	_ "github.com/go-sql-driver/mysql" // the driver that waits until the server answers
)

// MariaDB is a private MariaDB server.
type MariaDB struct {
	process
	Port int
	// DSN names the database "test", as go-sql-driver/mysql wants it; everybody
	// may connect.
	DSN string
	dir string
}

// StartMariaDB starts one, with settings as in "innodb_lock_wait_timeout=1". Its
// data is empty.
func StartMariaDB(settings ...string) (*MariaDB, error) {
	server, err := find("mariadbd", "mariadb-server", "/usr/sbin/mariadbd", "/usr/local/bin/mariadbd")
	if err != nil {
		return nil, err
	}
	install, err := find("mariadb-install-db", "mariadb-server")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ibid-mariadb-")
	if err != nil {
		return nil, err
	}
	m := &MariaDB{dir: dir}
	data := filepath.Join(dir, "data")
	common := []string{"--no-defaults", "--datadir=" + data}
	if os.Geteuid() == 0 {
		common = append(common, "--user=root")
	}
	for try := 1; ; try++ { // its bootstrap gives up on a machine that is too busy
		err := run(nil, dir, install, append(common, "--auth-root-authentication-method=normal", "--skip-test-db")...)
		if err == nil {
			break
		}
		if try == 3 {
			m.Stop()
			return nil, err
		}
		_ = os.RemoveAll(data)
	}
	if m.Port, err = freePort(); err != nil {
		m.Stop()
		return nil, err
	}
	m.DSN = fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", m.Port)
	m.process = process{
		path: server, log: filepath.Join(dir, "log"),
		args: append(common, "--port="+strconv.Itoa(m.Port), "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "socket"),
			"--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve", "--max-connections=200", "--innodb-buffer-pool-size=64M"),
	}
	for _, s := range settings {
		m.args = append(m.args, "--"+s)
	}
	if err := m.Start(); err != nil {
		m.Stop()
		return nil, err
	}
	return m, nil
}

// Start starts the server again, with the data and port that it had, and
// returns when it answers.
func (m *MariaDB) Start() error {
	if err := m.start(); err != nil {
		return err
	}
	return m.wait(func() error {
		db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/?timeout=1s", m.Port))
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.Exec("CREATE DATABASE IF NOT EXISTS test")
		return err
	})
}

// Stop ends the server and deletes its data.
func (m *MariaDB) Stop() {
	m.stop(syscall.SIGKILL) // nobody wants the data
	_ = os.RemoveAll(m.dir)
}
