package tx_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
)

// The test binary is also the process that is killed. It runs one operation,
// says where it is, and stops at the point that it was told, so that the kill
// strikes there and nowhere else.
const (
	envKind  = "IBID_TX_KIND"
	envWhere = "IBID_TX_WHERE"
	envID    = "IBID_TX_ID"
	envPoint = "IBID_TX_POINT"
	envWork  = "IBID_TX_WORK"
)

// killRounds is how often each of the eight points is struck, on each database.
var killRounds = flag.Int("rounds", 14, "kills at each named point: 14 are 112 kills per database; 400 are a long run")

func TestMain(m *testing.M) {
	if os.Getenv(envID) != "" {
		if err := child(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	if maria.server != nil {
		maria.server.Stop()
	}
	os.Exit(code)
}

// points are where a process is killed, in the order in which it passes them.
var points = []string{"before mark", "after mark", "mid work", "after effect", "before commit", "after commit", "before answer", "after answer"}

// reach says that the process is at point, and stops there if it was told to.
func reach(point string) {
	fmt.Println(point)
	if os.Getenv(envPoint) == point {
		select {}
	}
}

// pointed is a TxStore that passes points.
type pointed struct{ ibid.TxStore }

type pointedTx struct{ ibid.Tx }

func (p pointed) BeginTx(ctx context.Context, key ibid.Digest, claim ibid.Claim, wait time.Duration) (ibid.Tx, ibid.Record, error) {
	reach("before mark")
	tx, rec, err := p.TxStore.BeginTx(ctx, key, claim, wait)
	if tx != nil {
		reach("after mark")
		tx = pointedTx{tx}
	}
	return tx, rec, err
}

func (p pointedTx) Commit(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	reach("before commit")
	err := p.Tx.Commit(ctx, result, keep, undo)
	reach("after commit")
	return err
}

// child runs one operation of two effects, and prints its answer.
func child() error {
	ctx := context.Background()
	i := slices.IndexFunc(databases, func(d database) bool { return d.name == os.Getenv(envKind) })
	o, err := databases[i].open(ctx, os.Getenv(envWhere), 4)
	if err != nil {
		return err
	}
	defer o.close()
	id := os.Getenv(envID)
	switch os.Getenv(envWork) {
	case "naive":
		err = naive(ctx, o, id)
	case "steps":
		var e *ibid.Engine
		if e, err = newEngine(ctx, o); err == nil {
			var v string
			if v, err = orderOfSteps(ctx, e, o, id, 500*time.Millisecond, reach); err == nil {
				fmt.Println("answer:", v)
			}
		}
	case "many":
		err = manyOrders(ctx, o, id)
	default:
		err = guardedOrder(ctx, o, id)
	}
	if err == nil {
		reach("after answer")
	}
	return err
}

func guardedOrder(ctx context.Context, o *opened, id string) error {
	e, err := newEngine(ctx, o)
	if err != nil {
		return err
	}
	data, _, err := e.Do(ctx, orderCall(o, id, pointed{o.store}), func(ctx context.Context) ([]byte, error) {
		if err := o.charge(ctx, id, "stock"); err != nil {
			return nil, err
		}
		reach("mid work")
		if err := o.charge(ctx, id, "charge"); err != nil {
			return nil, err
		}
		reach("after effect")
		return fmt.Appendf(nil, "receipt of %d", os.Getpid()), nil
	})
	if err != nil {
		return err
	}
	reach("before answer")
	fmt.Println("answer:", string(data))
	return nil
}

// manyOrders runs one operation after the other, until it is killed.
func manyOrders(ctx context.Context, o *opened, id string) error {
	e, err := newEngine(ctx, o)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		one := fmt.Sprintf("%s-%d", id, n)
		fmt.Println("begins:", one)
		data, _, err := e.Do(ctx, orderCall(o, one, o.store), func(ctx context.Context) ([]byte, error) {
			for _, part := range []string{"stock", "charge"} {
				if err := o.charge(ctx, one, part); err != nil {
					return nil, err
				}
			}
			return fmt.Appendf(nil, "receipt of %d", os.Getpid()), nil
		})
		if err != nil {
			return err
		}
		fmt.Println("answer:", one, string(data))
	}
}

func orderCall(o *opened, id string, tx ibid.TxStore) ibid.Call {
	return ibid.Call{Key: ibid.Key{Scope: "orders", ID: id}, Fingerprint: ibid.Fingerprint{1, 2}, Tx: tx}
}

// naive is what is written without ibid: check, act, record. It is the control:
// the harness must see its duplicates.
func naive(ctx context.Context, o *opened, id string) error {
	seen, err := o.count(ctx, fmt.Sprintf("SELECT count(*) FROM naive WHERE id = '%s'", id))
	if err != nil || seen > 0 {
		fmt.Println("answer: receipt")
		return err
	}
	reach("after mark")
	for _, part := range []string{"stock", "charge"} {
		if err := o.auto(ctx, fmt.Sprintf("INSERT INTO ledger VALUES ('%s', '%s')", id, part)); err != nil {
			return err
		}
		if part == "stock" {
			reach("mid work")
		}
	}
	reach("after effect")
	if err := o.auto(ctx, fmt.Sprintf("INSERT INTO naive VALUES ('%s')", id)); err != nil {
		return err
	}
	reach("after commit")
	fmt.Println("answer: receipt")
	return nil
}

// process is a running child.
type process struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func (b *bench) spawn(id, point string, env ...string) *process {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envKind+"="+b.kind.name, envWhere+"="+b.where, envID+"="+id, envPoint+"="+point)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return &process{cmd, bufio.NewScanner(out)}
}

// reached reads what p says until it says line, and returns the answer that it
// gave on the way.
func (p *process) reached(line string) (answer string, ok bool) {
	for p.out.Scan() {
		if a, is := strings.CutPrefix(p.out.Text(), "answer: "); is {
			answer = a
		}
		if p.out.Text() == line {
			return answer, true
		}
	}
	return answer, false
}

// killAt lets a child run to point, kills it there, and returns the answer that
// it gave before.
func (b *bench) killAt(id, point string, meanwhile func(), env ...string) string {
	b.t.Helper()
	p := b.spawn(id, point, env...)
	answer, ok := p.reached(point)
	if !ok {
		b.t.Fatalf("the child never came to %q: %v", point, p.cmd.Wait())
	}
	if meanwhile != nil {
		meanwhile()
		time.Sleep(5 * time.Millisecond) // most of them wait by now
	}
	if err := p.cmd.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	if p.out.Scan() {
		b.t.Fatalf("the child went on to %q: the kill struck too late", p.out.Text())
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		b.t.Fatalf("the child ended by itself: %v", err)
	}
	return answer
}

// retry is what clients do that had no answer: three at a time ask again. It
// returns their one answer.
func (b *bench) retry(id string) string {
	b.t.Helper()
	var wg sync.WaitGroup
	answers := make([]string, 3)
	for i := range answers {
		wg.Go(func() {
			data, _, err := b.engine.Do(b.t.Context(), orderCall(b.opened, id, b.store), func(ctx context.Context) ([]byte, error) {
				for _, part := range []string{"stock", "charge"} {
					if err := b.charge(ctx, id, part); err != nil {
						return nil, err
					}
				}
				return []byte("receipt of the retry"), nil
			})
			answers[i] = string(data)
			if err != nil {
				answers[i] = err.Error()
			}
		})
	}
	wg.Wait()
	if answers[0] != answers[1] || answers[0] != answers[2] {
		b.t.Errorf("answers differ: %q", answers)
	}
	return answers[0]
}

// A process is killed at each point, and its clients ask again, half of them while
// it still lives. The ledger has two rows of each operation, and the answer of
// the dead process, if it got so far, is everybody's.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	rounds := *killRounds
	if testing.Short() {
		rounds = 3
	}
	each(t, func(t *testing.T, b *bench) {
		kills := 0
		for round := range rounds {
			for i, point := range points {
				call, _ := b.newCall()
				id := call.Key.ID
				var early sync.WaitGroup
				var first atomic.Value
				meanwhile := func() {
					early.Go(func() { first.Store(b.retry(id)) })
				}
				if round%2 == 0 {
					meanwhile = nil
				}
				said := b.killAt(id, point, meanwhile)
				kills++
				early.Wait()
				answer := b.retry(id)
				if a, ok := first.Load().(string); ok && a != answer {
					t.Errorf("%s: answers differ: %q and %q", point, a, answer)
				}
				if said != "" && said != answer {
					t.Errorf("%s: the dead process answered %q, the retry %q", point, said, answer)
				}
				committed := i >= slices.Index(points, "after commit")
				if got := answer != "receipt of the retry"; got != committed || !strings.HasPrefix(answer, "receipt of ") {
					t.Errorf("%s: %q: the first process had committed: %v", point, answer, committed)
				}
				if n := b.effects(id); n != 2 {
					t.Errorf("%s: %d effects, want 2", point, n)
				}
			}
		}
		t.Logf("%d kills, each where it was meant: no duplicate, none lost, no differing answer", kills)
	})
}

// A process is killed at any moment of its work, COMMIT included. What it
// answered stays, and the operation that it was at happens once.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	kills := 40
	if testing.Short() {
		kills = 10
	}
	each(t, func(t *testing.T, b *bench) {
		answered, cut := 0, 0
		for range kills {
			call, _ := b.newCall()
			p := b.spawn(call.Key.ID, "", envWork+"=many")
			answers := make(map[string]string) // id → what was answered; "" while it runs
			var kill *time.Timer
			for p.out.Scan() {
				verb, rest, _ := strings.Cut(p.out.Text(), " ")
				id, answer, _ := strings.Cut(rest, " ")
				switch {
				case verb == "begins:":
					answers[id] = ""
				case verb == "answer:" && strings.HasPrefix(answer, "receipt of "):
					answers[id] = answer
				}
				if kill == nil && answer != "" { // it is at work
					kill = time.AfterFunc(rand.N(20*time.Millisecond), func() { _ = p.cmd.Process.Kill() })
				}
			}
			if err := p.cmd.Wait(); p.cmd.ProcessState.Exited() || kill == nil {
				t.Fatalf("the child ended by itself: %v", err)
			}
			for id, said := range answers {
				if said == "" {
					cut++
				} else {
					answered++
				}
				if answer := b.retry(id); said != "" && answer != said {
					t.Errorf("%s: answered %q, then %q", id, said, answer)
				}
				if n := b.effects(id); n != 2 {
					t.Errorf("%s: %d effects, want 2", id, n)
				}
			}
		}
		t.Logf("%d kills: %d operations answered before, %d cut off", kills, answered, cut)
		if cut < kills/2 || answered < kills {
			t.Error("too few: nothing was tested")
		}
	})
}

// The control: check, act, record, killed in the same way, and asked again by the
// same. The harness that finds nothing wrong with ibid must find this.
func TestNaiveControlDuplicates(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		duplicates, lost := 0, 0
		for _, point := range []string{"after mark", "mid work", "after effect", "after commit"} {
			call, _ := b.newCall()
			id := call.Key.ID
			b.killAt(id, point, nil, envWork+"=naive")
			if err := naiveQuietly(t.Context(), b.opened, id); err != nil {
				t.Fatal(err)
			}
			switch n := b.effects(id); {
			case n > 2:
				duplicates++
			case n < 2:
				lost++
			}
		}
		if duplicates < 2 {
			t.Errorf("%d duplicates, %d lost: the control shows nothing, so the test above proves nothing", duplicates, lost)
		}
		t.Logf("control: %d of 4 operations duplicated", duplicates)
	})
}

// naiveQuietly is naive in this process, to the end.
func naiveQuietly(ctx context.Context, o *opened, id string) error {
	seen, err := o.count(ctx, fmt.Sprintf("SELECT count(*) FROM naive WHERE id = '%s'", id))
	if err != nil || seen > 0 {
		return err
	}
	for _, part := range []string{"stock", "charge"} {
		if err := o.auto(ctx, fmt.Sprintf("INSERT INTO ledger VALUES ('%s', '%s')", id, part)); err != nil {
			return err
		}
	}
	return o.auto(ctx, fmt.Sprintf("INSERT INTO naive VALUES ('%s')", id))
}
