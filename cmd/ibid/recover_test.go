package main_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
	"github.com/ibid-go/ibid/sqlstore"
	"github.com/ibid-go/ibid/steps"
)

// An order whose attempt vanished between its steps is finished from outside,
// without its client, and with credentials that were never kept.
func TestRecoverFinishesOverHTTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seal := bytes.Repeat([]byte{7}, 32)
	if err := os.WriteFile(filepath.Join(dir, "seal"), []byte(hex.EncodeToString(seal)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.OpenSQLite(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	engine, err := ibid.New(t.Context(), store, &ibid.Options{Seal: []ibid.SealKey{{ID: 1, Key: seal}}})
	if err != nil {
		t.Fatal(err)
	}
	var charges, orders atomic.Int64
	var alive atomic.Bool
	order := func(ctx context.Context, r *http.Request, body []byte) (string, error) {
		return steps.Resume(ctx, func(ctx context.Context, op *steps.Op) (string, error) {
			if err := op.Keep(ctx, steps.HTTPRequest(r, body, "Idempotency-Key", "Content-Type")); err != nil {
				return "", err
			}
			_, err := steps.Step(ctx, op, "charge", func(context.Context, steps.StepInfo) (int64, error) { return charges.Add(1), nil })
			if err != nil {
				return "", err
			}
			if !alive.Load() {
				panic(http.ErrAbortHandler) // as the death of the process
			}
			return steps.Step(ctx, op, "order", func(context.Context, steps.StepInfo) (string, error) {
				orders.Add(1)
				return "order of " + string(body), nil
			})
		})
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var receipt string
		if err == nil {
			receipt, err = order(r.Context(), r, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, receipt)
	})
	guard := ibidhttp.New(engine, ibidhttp.ByHeader("X-Tenant"), &ibidhttp.Options{Policy: &ibid.Policy{Takeover: ibid.Retry}})
	server := httptest.NewServer(guard(handler))
	defer server.Close()
	post := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/orders?rush=1", strings.NewReader("3 apples"))
		if err != nil {
			return "", err
		}
		req.Header.Set("X-Tenant", "fruit")
		req.Header.Set("Idempotency-Key", "order-42")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.Status + " " + string(body), err
	}
	if said, err := post(); err == nil {
		t.Fatalf("the first attempt answered %s", said)
	}
	recover := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, "recover", "--store", "sqlite:"+filepath.Join(dir, "orders.db"),
			"--seal-key", "1:"+filepath.Join(dir, "seal"), "--to", server.URL, "--header", "X-Tenant: fruit").CombinedOutput()
		return string(out), err
	}
	var failed *exec.ExitError
	if out, err := recover(); !errors.As(err, &failed) || !strings.Contains(out, "0 finished, 1 failed") {
		t.Errorf("while the service fails: %v\n%s", err, out)
	}
	alive.Store(true)
	if out, err := recover(); err != nil || !strings.Contains(out, "1 finished, 0 failed, 0 unknown") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := recover(); err != nil || !strings.Contains(out, "0 finished") {
		t.Errorf("once more: %v\n%s", err, out)
	}
	if said, err := post(); err != nil || said != "201 Created order of 3 apples" {
		t.Errorf("the client comes back: %s, %v", said, err)
	}
	if charges.Load() != 1 || orders.Load() != 1 {
		t.Errorf("%d charges, %d orders", charges.Load(), orders.Load())
	}
}
