package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
)

// Cases returns the suite.
func Cases() []Case {
	return []Case{
		{"a message that is published three times is processed once", "producers repeat themselves after a lost answer", publishedTwice},
		{"a nack storm loses nothing and repeats nothing", "a mark made before the work loses what fails once", nackStorm},
		{"a poison message is rejected and the others go on", "one bad message must not stop a queue", poison},
		{"a final failure is rejected at once", "retrying what can never work costs everyone behind it", final},
		{"the same ID with another body is rejected", "two messages under one ID would be taken for one", mismatch},
		{"an unknown outcome is rejected and not run again", "under Refuse nothing runs after an attempt that vanished", unknown},
		{"an acknowledgement that is lost costs nothing", "an ack is no commit point", lostAck},
		{"work slower than the broker's patience runs once", "a second delivery in the middle would run it beside itself", slow},
		{"a consumer that stops mid-work hands over", "a moved partition delivers what another still works on", moved},
		{"produced messages are emitted again after a lost acknowledgement", "the process may have died between recording and emitting", produced},
		{"what cannot be emitted is not acknowledged", "what follows a message would be lost with it", retried},
	}
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("m%d", i))
	}
	return out
}

func publishedTwice(e *env) {
	e.consume(e.consumer(ibid.Retry, nil), func(_ context.Context, body string, _ int) error { return e.effect(body) })
	for range 3 {
		for _, m := range names(5) {
			e.publish(m, m)
		}
	}
	e.publish("last", "last")
	e.exactly(append(names(5), "last")...)
}

func nackStorm(e *env) {
	for _, m := range names(20) {
		e.publish(m, m)
	}
	e.consume(e.consumer(ibid.Retry, nil), func(_ context.Context, body string, run int) error {
		if run <= 2 {
			return errDown
		}
		return e.effect(body)
	})
	e.exactly(names(20)...)
}

func poison(e *env) {
	e.publish("bad", "bad")
	e.publish("good", "good")
	e.consume(e.consumer(ibid.Retry, nil), func(_ context.Context, body string, _ int) error {
		if body == "bad" {
			return errDown
		}
		return e.effect(body)
	})
	e.exactly("good")
	e.until("the dead letter", func() bool { return len(e.dead) > 0 && errors.Is(e.dead[0], ibid.ErrAttempts) })
	e.settle()
	e.until("five attempts and no more", func() bool { return e.runs["bad"] == 5 })
}

func final(e *env) {
	e.publish("bad", "bad")
	e.publish("bad", "bad")
	e.publish("good", "good")
	e.consume(e.consumer(ibid.Retry, nil), func(_ context.Context, body string, _ int) error {
		if body == "bad" {
			return ibid.Final(errDown)
		}
		return e.effect(body)
	})
	e.exactly("good")
	e.until("a dead letter for each delivery, after one run", func() bool { return len(e.dead) == 2 && e.runs["bad"] == 1 })
}

func mismatch(e *env) {
	_, stop := e.consume(e.consumer(ibid.Retry, nil), func(_ context.Context, body string, _ int) error { return e.effect(body) })
	e.publish("one", "first")
	e.exactly("first")
	e.publish("one", "second")
	e.publish("last", "last")
	e.exactly("last")
	e.until("the dead letter", func() bool { return len(e.dead) == 1 && errors.Is(e.dead[0], ibid.ErrMismatch) })
	stop()
	if e.effects["second"] != 0 {
		e.failf("the second body ran: %s", e.show())
	}
}

func unknown(e *env) {
	e.publish("bad", "bad")
	e.publish("bad", "bad")
	e.publish("good", "good")
	e.consume(e.consumer(ibid.Refuse, nil), func(ctx context.Context, body string, _ int) error {
		if body == "bad" {
			ibid.EffectStarted(ctx)
			return errDown
		}
		return e.effect(body)
	})
	e.exactly("good")
	e.until("a dead letter for each delivery, after one run", func() bool {
		return len(e.dead) == 2 && e.runs["bad"] == 1 && errors.Is(e.dead[0], ibid.ErrUnknown) && errors.Is(e.dead[1], ibid.ErrUnknown)
	})
}

func lostAck(e *env) {
	e.broker.LoseAcks(1)
	c := e.consumer(ibid.Retry, nil)
	work := func(_ context.Context, body string, _ int) error { return e.effect(body) }
	_, stop := e.consume(c, work)
	e.publish("one", "one")
	e.until("the effect", func() bool { return e.effects["one"] > 0 })
	e.settle()
	stop()
	e.consume(c, work)
	e.publish("two", "two")
	e.exactly("one", "two")
}

func slow(e *env) {
	pause := max(2*e.target.AckTimeout+e.target.AckTimeout/2, 200*time.Millisecond)
	var running, most atomic.Int64
	work := func(_ context.Context, body string, _ int) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		time.Sleep(pause)
		return e.effect(body)
	}
	c := e.consumer(ibid.Retry, nil)
	e.consume(c, work)
	e.consume(c, work) // who would get a second delivery
	e.publish("one", "one")
	e.exactly("one")
	if n := most.Load(); n != 1 {
		e.failf("%d ran beside each other", n)
	}
}

func moved(e *env) {
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	c := e.consumer(ibid.Retry, nil)
	cancel, _ := e.consume(c, func(_ context.Context, body string, _ int) error {
		entered <- struct{}{}
		<-leave
		return e.effect(body)
	})
	e.publish("one", "one")
	select {
	case <-entered:
	case <-time.After(e.target.Patience):
		e.failf("nothing was delivered")
	}
	cancel()
	e.consume(c, func(_ context.Context, body string, _ int) error { return e.effect(body) })
	e.publish("two", "two")
	time.Sleep(300 * time.Millisecond)
	close(leave)
	e.exactly("one", "two")
}

func produced(e *env) {
	e.broker.LoseAcks(1)
	c := e.consumer(ibid.Retry, nil)
	work := func(ctx context.Context, body string, _ int) error {
		return errors.Join(inbox.Produce(ctx, inbox.Produced{Body: []byte("receipt")}), e.effect(body))
	}
	_, stop := e.consume(c, work)
	e.publish("one", "one")
	e.until("the first emission", func() bool { return len(e.emitted) > 0 })
	e.settle()
	stop()
	e.consume(c, work)
	e.until("the second emission", func() bool { return len(e.emitted) > 1 })
	e.exactly("one")
	e.until("one ID", func() bool { return len(e.emitted) > 1 && e.emitted[0] != "" && e.emitted[0] == e.emitted[1] })
}

func retried(e *env) {
	var down atomic.Bool
	down.Store(true)
	c := e.consumer(ibid.Retry, func(o *inbox.Options) {
		emit := o.Emit
		o.Emit = func(ctx context.Context, m inbox.Message, p []inbox.Produced) error {
			if down.Load() {
				return errDown
			}
			return emit(ctx, m, p)
		}
	})
	e.consume(c, func(ctx context.Context, body string, _ int) error {
		return errors.Join(inbox.Produce(ctx, inbox.Produced{ID: body}), e.effect(body))
	})
	for _, m := range names(3) {
		e.publish(m, m)
	}
	time.Sleep(200 * time.Millisecond)
	down.Store(false)
	e.exactly(names(3)...)
	e.until("every emission", func() bool { return len(e.emitted) >= 3 })
}
