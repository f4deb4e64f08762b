package messages

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/ibid-go/ibid/inbox"
	ibidamqp "github.com/ibid-go/ibid/inbox/amqp"
	"github.com/ibid-go/ibid/inbox/inboxtest"
	"github.com/ibid-go/ibid/internal/integration/servers"
)

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the first boot of RabbitMQ takes some 20 s")
	}
	url := startRabbit(t)
	var n atomic.Int64
	inboxtest.Run(t, inboxtest.Target{
		Parallel: true,
		Open: func(context.Context) (inboxtest.Broker, error) {
			return openRabbit(url, fmt.Sprint("q", n.Add(1)))
		},
	})
}

type rabbitBroker struct {
	conn *amqp.Connection
	out  *amqp.Channel
	name string
	lose atomic.Int64
}

func openRabbit(url, name string) (*rabbitBroker, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, err
	}
	b := &rabbitBroker{conn: conn, name: name}
	if b.out, err = conn.Channel(); err != nil {
		return nil, err
	}
	_, err = b.out.QueueDeclare(name, false, false, false, false, nil)
	return b, err
}

func (b *rabbitBroker) Publish(ctx context.Context, id, body string) error {
	return b.out.PublishWithContext(ctx, "", b.name, true, false, amqp.Publishing{MessageId: id, Body: []byte(body)})
}

// Consume closes its channel when it stops, as a process that dies would: what
// it has not settled is delivered again.
func (b *rabbitBroker) Consume(ctx context.Context, c *inbox.Consumer, work func(context.Context, string) error) error {
	ch, err := b.conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(10, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(b.name, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	out := make(chan amqp.Delivery)
	go func() {
		defer close(out)
		for d := range deliveries {
			d.Acknowledger = lossyChannel{ch, &b.lose}
			select {
			case <-ctx.Done():
				return
			case out <- d:
			}
		}
	}()
	// Closed when ctx ends, while work may still run, and in any case before this
	// returns: a consumer that is left behind takes messages and settles none.
	defer ch.Close()
	defer context.AfterFunc(ctx, func() { ch.Close() })()
	ibidamqp.Consume(ctx, out, c, func(ctx context.Context, d *amqp.Delivery) error { return work(ctx, string(d.Body)) }, nil)
	return nil
}

func (b *rabbitBroker) LoseAcks(n int) { b.lose.Add(int64(n)) }

func (b *rabbitBroker) Close() error { return b.conn.Close() }

type lossyChannel struct {
	*amqp.Channel
	lose *atomic.Int64
}

func (l lossyChannel) Ack(tag uint64, multiple bool) error {
	if l.lose.Add(-1) >= 0 {
		return nil
	}
	return l.Channel.Ack(tag, multiple)
}

// startRabbit starts a private broker, with a private port mapper.
func startRabbit(t *testing.T) (url string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	epmd, err := exec.LookPath("epmd")
	if len(found) == 0 || err != nil {
		servers.Need(t, servers.Missing{What: "rabbitmq-server", Package: "rabbitmq-server"})
	}
	dir, err := os.MkdirTemp("", "ibid-rabbit-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	mapper, dist, port := freePort(t), freePort(t), freePort(t)
	env := append(os.Environ(), "HOME="+dir, "ERL_EPMD_PORT="+mapper, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=ibid"+port+"@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT="+port,
		"RABBITMQ_DIST_PORT="+dist, "RABBITMQ_MNESIA_BASE="+dir, "RABBITMQ_LOG_BASE="+dir, "RABBITMQ_PID_FILE="+dir+"/pid",
		"RABBITMQ_ENABLED_PLUGINS_FILE="+dir+"/plugins", "RABBITMQ_CONFIG_FILE="+dir+"/none", "RABBITMQ_CONF_ENV_FILE="+dir+"/none",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}")
	startGroup(t, env, dir, epmd)
	startGroup(t, env, dir, found[len(found)-1])
	url = "amqp://guest:guest@127.0.0.1:" + port + "/"
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		conn, err := amqp.Dial(url)
		if err == nil {
			conn.Close()
			return url
		}
		if time.Now().After(end) {
			logs, _ := os.ReadFile(filepath.Join(dir, "out"))
			t.Fatalf("rabbitmq-server does not answer: %v\n%s", err, logs)
		}
	}
}

// startGroup starts a command in a process group of its own, which ends with the
// test.
func startGroup(t *testing.T, env []string, dir, path string) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(path)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
