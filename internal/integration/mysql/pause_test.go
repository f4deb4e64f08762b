package mysql_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/ibid-go/ibid/internal/integration/servers"
)

func pause(t *testing.T, server *servers.MariaDB) {
	t.Helper()
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func resume(t *testing.T, server *servers.MariaDB) {
	t.Helper()
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func contextOf(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}
