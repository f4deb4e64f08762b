package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// The test binary is also the child process: it runs the child that the
// environment names, on the file that it names.
const (
	envChild = "IBID_SQLITE_CHILD"
	envFile  = "IBID_SQLITE_FILE"
)

var children = map[string]func(*sqlstore.SQLite) error{"claim": claimAll, "charge": chargeForEver}

func TestMain(m *testing.M) {
	child, ok := children[os.Getenv(envChild)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := runChild(child); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runChild(child func(*sqlstore.SQLite) error) error {
	db, err := sql.Open("sqlite", os.Getenv(envFile))
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlstore.OpenSQLite(context.Background(), db, &sqlstore.SQLiteOptions{BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer s.Close()
	return child(s)
}

// start runs a child on path. It ends when the test does.
func start(t *testing.T, child, path string) (*exec.Cmd, io.ReadCloser) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+child, envFile+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

func numbered(n int) (k ibid.Digest) {
	binary.BigEndian.PutUint64(k[:], uint64(n)*0x9e3779b97f4a7c15) // all over the tree
	return k
}

const claimKeys = 400

// claimAll tries to claim every key, eight at a time, completes those it owns,
// and prints them.
func claimAll(s *sqlstore.SQLite) error {
	keys := make(chan int)
	errs := make(chan error, 8)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range keys {
				if err := claimOne(s, n); err != nil {
					errs <- fmt.Errorf("key %d: %w", n, err)
					return
				}
			}
		})
	}
	for _, n := range rand.Perm(claimKeys) {
		select {
		case keys <- n:
		case err := <-errs:
			return err
		}
	}
	close(keys)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func claimOne(s *sqlstore.SQLite, n int) error {
	ctx, c := context.Background(), newClaim()
	r, err := s.Begin(ctx, numbered(n), c)
	if err != nil || !r.OwnedBy(c.Token) {
		return err
	}
	fmt.Println(n, os.Getpid())
	return s.Complete(ctx, numbered(n), c.Token, strconv.AppendInt(nil, int64(os.Getpid()), 10), ibid.Keep{Retain: long})
}

func TestEightProcessesOnOneFile(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	if err := f.Close(); err != nil { // the children make the table, all at once
		t.Fatal(err)
	}
	f.exec("DROP TABLE ibid_record")
	f.exec("DROP TABLE ibid_record_schema")
	type process struct {
		cmd *exec.Cmd
		out io.Reader
	}
	var running []process
	for range 8 {
		cmd, out := start(t, "claim", f.path)
		running = append(running, process{cmd, out})
	}
	owner := make(map[int]string)
	working := make(map[string]bool)
	for _, p := range running {
		for lines := bufio.NewScanner(p.out); lines.Scan(); {
			n, pid, _ := strings.Cut(lines.Text(), " ")
			key, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			if other, taken := owner[key]; taken {
				t.Errorf("key %d has two owners: %s and %s", key, other, pid)
			}
			owner[key], working[pid] = pid, true
		}
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if len(owner) != claimKeys {
		t.Errorf("%d of %d keys have an owner", len(owner), claimKeys)
	}
	if len(working) < 2 {
		t.Errorf("%d processes owned keys: they did not meet", len(working))
	}
	s, err := sqlstore.OpenSQLite(t.Context(), f.raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n, pid := range owner {
		if r, err := s.Look(t.Context(), numbered(n)); err != nil || string(r.Result) != pid {
			t.Errorf("key %d: %q, %v, want the result of its owner %s", n, r.Result, err, pid)
		}
	}
}

// chargeForEver completes keys, new ones and a few that all fight for, and
// prints each with its result once the store has acknowledged it.
func chargeForEver(s *sqlstore.SQLite) error {
	var mu sync.Mutex // a line is whole
	errs := make(chan error)
	for range 16 {
		go func() {
			for {
				key, c := newKey(), newClaim()
				if rand.N(4) == 0 {
					key = numbered(rand.N(64))
					c.Lease, c.MaxTakeovers = time.Millisecond, -1
				}
				result := ibid.NewToken().String()
				acknowledged, err := charge(s, key, c, result)
				if err != nil {
					errs <- err
					return
				}
				if acknowledged {
					mu.Lock()
					fmt.Println(key, result)
					mu.Unlock()
				}
			}
		}()
	}
	return <-errs
}

func charge(s *sqlstore.SQLite, key ibid.Digest, c ibid.Claim, result string) (acknowledged bool, err error) {
	ctx := context.Background()
	r, err := s.Begin(ctx, key, c)
	if err != nil || !r.OwnedBy(c.Token) {
		return false, err
	}
	err = s.Complete(ctx, key, c.Token, []byte(result), ibid.Keep{Retain: long})
	if errors.Is(err, ibid.ErrClaimLost) {
		return false, nil
	}
	return err == nil, err
}

// Whatever was acknowledged before a process was killed is there, is the only
// result of its key, and stays.
func TestKilledProcessesLoseNothingAcknowledged(t *testing.T) {
	t.Parallel()
	const kills = 20
	f := open(t, nil)
	acknowledged := make(map[ibid.Digest]string)
	for range kills {
		cmd, out := start(t, "charge", f.path)
		lines := bufio.NewScanner(out)
		var kill *time.Timer
		for lines.Scan() {
			if kill == nil { // it is at work
				kill = time.AfterFunc(rand.N(60*time.Millisecond), func() { cmd.Process.Kill() })
			}
			hexKey, result, whole := strings.Cut(lines.Text(), " ")
			key, err := ibid.ParseDigest(hexKey)
			if err != nil || !whole || len(result) != 32 {
				continue // cut off by the kill
			}
			if earlier, ok := acknowledged[key]; ok && earlier != result {
				t.Errorf("key %v has two results", key)
			}
			acknowledged[key] = result
		}
		if err := cmd.Wait(); cmd.ProcessState.Exited() || kill == nil {
			t.Fatalf("the child ended by itself: %v", err)
		}
	}
	for key, result := range acknowledged {
		if r, err := f.Look(t.Context(), key); err != nil || string(r.Result) != result {
			t.Errorf("key %v: %v %q, %v, want %q", key, r.State, r.Result, err, result)
		}
	}
	if len(acknowledged) < 10*kills {
		t.Errorf("only %d results were acknowledged in %d runs: nothing was tested", len(acknowledged), kills)
	}
	var verdict string
	if err := f.raw.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check: %q, %v", verdict, err)
	}
	t.Logf("%d kills, %d results acknowledged", kills, len(acknowledged))
}
