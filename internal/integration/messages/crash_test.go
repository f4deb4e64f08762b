package messages

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	ibidnats "github.com/ibid-go/ibid/inbox/nats"
	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/sqlstore"
)

// The consumer is a process of its own, which ends or stops itself at a point of
// the way of one message. The queue is a JetStream server of the test, the store
// a SQLite file. What counts is a ledger without a unique constraint.

// points are where a consumer is killed.
var points = []string{"before_begin", "after_begin", "mid_handler", "after_effect", "after_complete", "after_ack"}

// modes are how it processes.
const (
	modeTx     = "transactional inbox"
	modePgx    = "transactional inbox on PostgreSQL"
	modeRefuse = "lease, Refuse"
	modeRetry  = "lease, Retry"
	modeBefore = "control: mark before the work"
	modeAfter  = "control: mark after the work"
)

// crash is what a consumer process is told.
type crash struct {
	Mode, Point, Dir, URL, Queue string
	Postgres                     string // URL of the server, for modePgx
	Signal                       syscall.Signal
	Deaf                         bool // the work does not look at its context
}

const (
	crashEnv   = "IBID_MESSAGES_CRASH"
	crashLease = time.Second
	victim     = "m1"
)

// crashed is the consumer process; false in the test's own.
func crashed() bool {
	text := os.Getenv(crashEnv)
	if text == "" {
		return false
	}
	var c crash
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.consume(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
	return true
}

// at is a point of the way of message id.
func (c *crash) at(point, id string) {
	if point != c.Point || id != victim {
		return
	}
	f, err := os.OpenFile(filepath.Join(c.Dir, "hit"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // an earlier process was here
	}
	f.Close()
	c.log("hit", "")
	_ = syscall.Kill(os.Getpid(), c.Signal)
	if c.Signal == syscall.SIGKILL {
		select {}
	}
	time.Sleep(10 * time.Millisecond) // the signal has come when this is over
}

// log appends a line to a file of the run in one write.
func (c *crash) log(name, line string) {
	f, err := os.OpenFile(filepath.Join(c.Dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%d %s\n", os.Getpid(), line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

func openFile(ctx context.Context, dir string) (*sql.DB, *sqlstore.SQLite, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "f.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlstore.OpenSQLite(ctx, db, &sqlstore.SQLiteOptions{BusyTimeout: time.Second})
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS ledger (id TEXT, key TEXT); CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY)")
	}
	return db, store, err
}

// openPgx opens the table of the run, and the ledger beside it.
func (c *crash) openPgx(ctx context.Context) (*pgxpool.Pool, *pgxstore.Store, error) {
	pool, err := pgxpool.New(ctx, c.Postgres)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgxstore.New(ctx, pool, &pgxstore.Options{Table: c.table()})
	if err == nil {
		_, err = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+c.table()+"_ledger (id text, key text)")
	}
	return pool, store, err
}

func (c *crash) table() string { return strings.ToLower(c.Queue) }

func (c *crash) consume(ctx context.Context) error {
	db, file, err := openFile(ctx, c.Dir)
	if err != nil {
		return err
	}
	var store interface {
		ibid.Store
		ibid.TxStore
	} = file
	if c.Mode == modePgx {
		if _, store, err = c.openPgx(ctx); err != nil {
			return err
		}
	}
	engine, err := ibid.New(ctx, store, nil)
	if err != nil {
		return err
	}
	opts := inbox.Options{
		AckTimeout: crashLease, Policy: ibid.Policy{Lease: crashLease, Wait: -1, RetryAfter: 50 * time.Millisecond, MaxAttempts: -1},
		RetryMin: 20 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		DeadLetter: func(_ context.Context, m inbox.Message, err error) error {
			c.log("dead", m.ID+" "+err.Error())
			return nil
		},
	}
	takeover := ibid.Retry
	switch c.Mode {
	case modeRefuse:
		takeover = ibid.Refuse
	case modeTx, modePgx:
		opts.Tx = store
	}
	consumer, err := inbox.New(engine, "c", takeover, &opts)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(c.URL)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	queue, err := js.Consumer(ctx, c.Queue, "c")
	if err != nil {
		return err
	}
	handler, err := ibidnats.Handler(ctx, consumer, func(ctx context.Context, msg jetstream.Msg) error { return c.work(ctx, string(msg.Data())) }, nil)
	if err != nil {
		return err
	}
	_, err = queue.Consume(func(msg jetstream.Msg) {
		id := string(msg.Data())
		c.at("before_begin", id)
		msg = watched{msg, c, nc, id}
		if c.Mode == modeBefore || c.Mode == modeAfter {
			c.naive(db, id, msg)
			return
		}
		handler(msg)
	})
	if err != nil {
		return err
	}
	select {}
}

// work has the effect: a line in a file, or a row in the transaction.
func (c *crash) work(ctx context.Context, id string) error {
	c.at("after_begin", id)
	time.Sleep(5 * time.Millisecond)
	c.at("mid_handler", id)
	if c.Signal == syscall.SIGSTOP && c.Point == "mid_handler" && !c.Deaf {
		if a, _ := ibid.AttemptFrom(ctx); a.Vanished == 0 && id == victim {
			select { // what it must learn once it goes on
			case <-ctx.Done():
				c.log("learned", context.Cause(ctx).Error())
				return ctx.Err()
			case <-time.After(10 * time.Second):
			}
		}
	}
	key := ibid.DerivedKey(ctx, "effect")
	if tx, ok := sqlstore.Tx(ctx); ok {
		if _, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", id, key); err != nil {
			return err
		}
	} else if tx, ok := pgxstore.Tx(ctx); ok {
		if _, err := tx.Exec(ctx, "INSERT INTO "+c.table()+"_ledger VALUES ($1, $2)", id, key); err != nil {
			return err
		}
	} else {
		c.log("ledger", id+" "+key)
	}
	c.at("after_effect", id)
	return nil
}

// naive is what people write: a mark of their own, before or after the work.
func (c *crash) naive(db *sql.DB, id string, msg jetstream.Msg) {
	mark := func() bool {
		res, err := db.Exec("INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING", id)
		if err != nil {
			panic(err)
		}
		n, _ := res.RowsAffected()
		return n == 1
	}
	if c.Mode == modeBefore {
		if mark() {
			_ = c.work(context.Background(), id)
		}
	} else {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM seen WHERE id = ?", id).Scan(&n); err != nil {
			panic(err)
		}
		if n == 0 {
			_ = c.work(context.Background(), id)
			mark()
		}
	}
	_ = msg.Ack()
}

// watched has the points around the acknowledgement, and logs what the broker
// is told.
type watched struct {
	jetstream.Msg
	c  *crash
	nc *nats.Conn
	id string
}

func (w watched) Ack() error {
	w.c.at("after_complete", w.id)
	delivery := uint64(0)
	if meta, err := w.Metadata(); err == nil {
		delivery = meta.NumDelivered
	}
	w.c.log("told", fmt.Sprint(w.id, " ack of delivery ", delivery))
	err := errors.Join(w.Msg.Ack(), w.nc.Flush())
	w.c.at("after_ack", w.id)
	return err
}

// run is the other side: it starts consumers until the queue is empty.
type run struct {
	crash
	t      *testing.T
	stream jetstream.Stream
	js     jetstream.JetStream
	cmds   []*exec.Cmd
}

func newRun(t *testing.T, url string, c crash) *run {
	t.Helper()
	r := &run{crash: c, t: t}
	dir, err := os.MkdirTemp("", "ibid-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r.Dir, r.URL, r.Queue = dir, url, "R"+strings.ReplaceAll(filepath.Base(dir), "-", "")
	if c.Mode == modePgx {
		pool, store, err := r.openPgx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		store.Close()
		pool.Close()
	}
	db, store, err := openFile(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	db.Close()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if r.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	r.stream, err = r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: r.Queue, Subjects: []string{r.Queue}, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy})
	if err == nil {
		_, err = r.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "c", AckWait: crashLease})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.killAll)
	for i := range 3 {
		id := fmt.Sprint("m", i)
		if _, err := r.js.Publish(t.Context(), r.Queue, []byte(id), jetstream.WithMsgID(id)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *run) start() *exec.Cmd {
	r.t.Helper()
	text, err := json.Marshal(r.crash)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.cmds = append(r.cmds, cmd)
	return cmd
}

func (r *run) killAll() {
	for _, cmd := range r.cmds {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	r.cmds = nil
}

func (r *run) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(40 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s did not happen: ledger %q, dead %q, told %q", what, r.lines("ledger"), r.lines("dead"), r.lines("told"))
		}
	}
}

func (r *run) empty() bool {
	info, err := r.stream.Info(r.t.Context())
	return err == nil && info.State.Msgs == 0
}

func (r *run) lines(name string) []string {
	data, _ := os.ReadFile(filepath.Join(r.Dir, name))
	return strings.FieldsFunc(string(data), func(c rune) bool { return c == '\n' })
}

// effects returns the keys under which message id had its effect.
func (r *run) effects(id string) (keys []string) {
	for _, line := range r.lines("ledger") {
		if f := strings.Fields(line); f[1] == id {
			keys = append(keys, strings.Join(f[2:], ""))
		}
	}
	db, store, err := openFile(r.t.Context(), r.Dir)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	defer store.Close()
	if r.Mode == modePgx {
		pool, store, err := r.openPgx(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		defer pool.Close()
		defer store.Close()
		rows, err := pool.Query(r.t.Context(), "SELECT key FROM "+r.table()+"_ledger WHERE id = $1", id)
		if err != nil {
			r.t.Fatal(err)
		}
		if keys, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			r.t.Fatal(err)
		}
		return keys
	}
	rows, err := db.Query("SELECT key FROM ledger WHERE id = ?", id)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			r.t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return keys
}

func TestKilledConsumers(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	between := func(low, high int) map[string][2]int {
		out := map[string][2]int{}
		for _, p := range points {
			out[p] = [2]int{low, high}
		}
		return out
	}
	with := func(m map[string][2]int, low, high int, points ...string) map[string][2]int {
		for _, p := range points {
			m[p] = [2]int{low, high}
		}
		return m
	}
	for _, row := range []struct {
		mode string
		want map[string][2]int // point → how many effects the message may have had
	}{
		{modeTx, between(1, 1)},
		{modePgx, between(1, 1)},
		{modeRefuse, with(between(1, 1), 0, 0, "after_begin", "mid_handler")},
		{modeRetry, with(between(1, 1), 2, 2, "after_effect")},
		{modeBefore, with(between(1, 1), 0, 0, "after_begin", "mid_handler")}, // loses
		{modeAfter, with(between(1, 1), 2, 2, "after_effect")},                // duplicates
	} {
		for _, point := range points {
			t.Run(row.mode+"/"+point, func(t *testing.T) {
				t.Parallel()
				c := crash{Mode: row.mode, Point: point, Signal: syscall.SIGKILL}
				if row.mode == modePgx {
					c.Postgres = postgresURL(t)
				}
				r := newRun(t, url, c)
				first := r.start()
				err := first.Wait()
				if status, ok := first.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
					t.Fatalf("the first consumer ended with %v", err)
				}
				r.cmds = nil
				r.start()
				r.until("an empty queue", r.empty)
				r.killAll()
				for _, id := range []string{"m0", "m2"} {
					if keys := r.effects(id); len(keys) != 1 {
						t.Errorf("%s, which nothing happened to, had %d effects", id, len(keys))
					}
				}
				keys := r.effects(victim)
				if n, want := len(keys), row.want[point]; n < want[0] || n > want[1] {
					t.Errorf("%d effects, want %v", n, want)
				}
				dead := r.lines("dead")
				if row.mode == modeRefuse && len(keys) == 0 && len(dead) != 1 {
					t.Errorf("lost without a dead letter: %q", dead)
				}
				if control := row.mode == modeBefore || row.mode == modeAfter; !control && len(slices.Compact(keys)) > 1 {
					t.Errorf("another derived key: %q", keys)
				}
			})
		}
	}
}

func TestStoppedConsumers(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	for _, row := range []struct {
		name    string
		mode    string
		deaf    bool
		effects int
		dead    int
	}{
		{"work that looks at its context has no second effect", modeRetry, false, 1, 0},
		{"deaf work has its effect again, under the same derived key", modeRetry, true, 2, 0},
		{"under Refuse nobody takes over", modeRefuse, true, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, url, crash{Mode: row.mode, Point: "mid_handler", Signal: syscall.SIGSTOP, Deaf: row.deaf})
			first := r.start()
			r.until("the stop", func() bool { return len(r.lines("hit")) > 0 })
			r.start()
			r.until("an empty queue", r.empty)
			if err := first.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			r.until("the last effect", func() bool { return len(r.effects(victim)) >= row.effects })
			if !row.deaf {
				r.until("the news", func() bool { return len(r.lines("learned")) > 0 })
			}
			time.Sleep(500 * time.Millisecond) // for what must not happen
			r.killAll()
			keys := r.effects(victim)
			if len(keys) != row.effects || len(slices.Compact(keys)) != 1 {
				t.Errorf("effects under %q, want %d under one key", keys, row.effects)
			}
			if dead := r.lines("dead"); len(dead) != row.dead {
				t.Errorf("dead letters %q", dead)
			}
			if row.mode == modeRetry {
				stopped := fmt.Sprint(first.Process.Pid, " ", victim, " ack of delivery 1")
				if told := r.lines("told"); slices.Contains(told, stopped) {
					t.Errorf("the stopped consumer acknowledged after its claim was lost: %q", told)
				}
			}
		})
	}
}
