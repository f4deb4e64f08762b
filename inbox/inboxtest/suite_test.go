package inboxtest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/inbox/inboxtest"
)

// memory is a queue in memory, and an adapter that can be broken.
type memory struct {
	control func(inbox.Decision) inbox.Verdict // what the adapter makes of a decision
	naive   bool                               // the adapter asks no inbox

	mu       sync.Mutex
	messages []*message
	lose     int
}

type message struct {
	id, body string
	visible  time.Time
	taken    bool
}

func (m *memory) Publish(_ context.Context, id, body string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages = append(m.messages, &message{id: id, body: body})
	return nil
}

func (m *memory) take() *message {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, msg := range m.messages {
		if !msg.taken && !msg.visible.After(time.Now()) {
			msg.taken = true
			return msg
		}
	}
	return nil
}

func (m *memory) Consume(ctx context.Context, c *inbox.Consumer, work func(context.Context, string) error) error {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		msg := m.take()
		if msg == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		running.Go(func() {
			run := func(ctx context.Context) error { return work(ctx, msg.body) }
			if m.naive {
				verdict := inbox.Ack
				if run(ctx) != nil {
					verdict = inbox.Retry
				}
				m.settle(msg, verdict, 0)
				return
			}
			d := c.Process(ctx, inbox.Message{Source: "q", ID: msg.id, Body: []byte(msg.body)}, nil, run)
			m.settle(msg, m.control(d), d.Delay)
		})
	}
	return nil
}

func (m *memory) settle(msg *message, v inbox.Verdict, delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v == inbox.Ack {
		if m.lose--; m.lose >= 0 {
			v = inbox.Retry
		}
	}
	if v == inbox.Ack || v == inbox.Reject {
		m.messages = slices.DeleteFunc(m.messages, func(x *message) bool { return x == msg })
		return
	}
	msg.taken, msg.visible = false, time.Now().Add(delay)
}

func (m *memory) LoseAcks(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lose = max(m.lose, 0) + n
}

func (m *memory) Close() error { return nil }

func target(control func(inbox.Decision) inbox.Verdict, naive bool) inboxtest.Target {
	return inboxtest.Target{Parallel: true, Patience: 3 * time.Second, Open: func(context.Context) (inboxtest.Broker, error) {
		return &memory{control: control, naive: naive}, nil
	}}
}

func obey(d inbox.Decision) inbox.Verdict { return d.Verdict }

func TestSuiteHoldsOfAnAdapterThatObeys(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, target(obey, false))
}

// A suite that catches no broken adapter proves nothing.
func TestSuiteCatchesBrokenAdapters(t *testing.T) {
	t.Parallel()
	when := func(v, instead inbox.Verdict) func(inbox.Decision) inbox.Verdict {
		return func(d inbox.Decision) inbox.Verdict {
			if d.Verdict == v {
				return instead
			}
			return d.Verdict
		}
	}
	for _, row := range []struct {
		name   string
		target inboxtest.Target
		cases  []string // that must fail, by a part of their name
	}{
		{"acknowledges what should come again", target(when(inbox.Retry, inbox.Ack), false), []string{"nack storm", "poison", "cannot be emitted"}},
		{"asks again for what was rejected", target(when(inbox.Reject, inbox.Retry), false), []string{"final", "another body", "unknown"}},
		{"rejects what failed once", target(when(inbox.Retry, inbox.Reject), false), []string{"nack storm"}},
		{"asks no inbox", target(nil, true), []string{"three times", "lost costs nothing"}},
	} {
		for _, part := range row.cases {
			t.Run(row.name+"/"+part, func(t *testing.T) {
				t.Parallel()
				found := false
				for _, c := range inboxtest.Cases() {
					if !strings.Contains(c.Name, part) {
						continue
					}
					found = true
					if err := c.Check(t.Context(), row.target); err == nil {
						t.Errorf("%q holds", c.Name)
					}
				}
				if !found {
					t.Error("no such case")
				}
			})
		}
	}
}
