package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// Defaults of Options.
const (
	// DefaultRetain is the window of messages: senders repeat themselves for
	// days, and dead letters are sent again even later.
	DefaultRetain      = 7 * 24 * time.Hour
	DefaultWait        = 2 * time.Second
	DefaultMaxAttempts = 10
	DefaultRetryMin    = time.Second
	DefaultRetryMax    = time.Minute
)

// settleTimeout bounds Emit and DeadLetter.
const settleTimeout = 10 * time.Second

// Options of a Consumer. A nil *Options, and the zero value of every field, is
// the default.
type Options struct {
	// Policy overrides the engine's policy, with these differences: Takeover is
	// that of New, Detach is always on, and the defaults of Retain, Wait and
	// MaxAttempts are those of this package. A negative MaxAttempts is no bound.
	Policy ibid.Policy
	// AckTimeout is how long the broker waits for an answer before it delivers
	// again: AckWait, visibility timeout. The lease is at least that, and the
	// broker is told that the work goes on at a third of it. Default 0:
	// the broker waits for ever.
	AckTimeout time.Duration
	// Horizon is how long after the first delivery a message may come again: the
	// retention of queue and dead letters together. New refuses a
	// Policy.Retain that is shorter. Default 0: not declared.
	Horizon time.Duration
	// RetryMin and RetryMax bound the delay after a transient error: it doubles
	// with each attempt. Default 1 s and 1 min; negative is no delay.
	RetryMin, RetryMax time.Duration
	// Tx runs the work in transactional mode. The work finds its transaction
	// in its context, by the store's accessor. Default nil: lease mode.
	Tx ibid.TxStore
	// Probe is asked under ibid.Probe, and required then. The messages that a
	// vanished attempt should have produced are those that it hands to Produce.
	Probe func(context.Context, Message) (ibid.Found, error)
	// Emit sends what the work produced, after the result was recorded and
	// before the message is acknowledged; again on every replay. An error is
	// Retry. Required when the work calls Produce. It has 10 s.
	Emit func(context.Context, Message, []Produced) error
	// DeadLetter is called before a message is rejected, with the reason. An
	// error is Retry: a message is not given away before it is kept. It may
	// be called more than once for a message. Nil leaves it to the broker. It has 10 s.
	DeadLetter func(context.Context, Message, error) error
}

// Consumer processes messages, each once. It is safe for concurrent use, starts
// no goroutine, and needs no closing.
type Consumer struct {
	engine *ibid.Engine
	name   string
	opts   Options
	policy ibid.Policy // as the engine applies it
}

// New returns the consumer of that name: two consumers with different names do
// not see each other's messages. takeover is what follows an attempt that
// vanished, and has no default here: ibid.Refuse rejects the message as unknown,
// ibid.Retry runs the work again under the same derived keys, ibid.Probe asks
// Options.Probe. In transactional mode nothing vanishes half-way, and Retry is right.
//
// ErrInvalid names the option that cannot keep a promise.
func New(engine *ibid.Engine, name string, takeover ibid.Takeover, opts *Options) (*Consumer, error) {
	c := &Consumer{engine: engine, name: name}
	if opts != nil {
		c.opts = *opts
	}
	if name == "" {
		return nil, invalid("name is empty: it keeps consumers apart")
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"AckTimeout", c.opts.AckTimeout}, {"Horizon", c.opts.Horizon}} {
		if f.d < 0 {
			return nil, invalid("Options.%s is %v", f.name, f.d)
		}
	}
	if (takeover == ibid.Probe) != (c.opts.Probe != nil) {
		return nil, invalid("Options.Probe: it is required with ibid.Probe, and only then")
	}
	or(&c.opts.RetryMin, DefaultRetryMin)
	or(&c.opts.RetryMax, max(DefaultRetryMax, c.opts.RetryMin))
	if err := c.setPolicy(takeover); err != nil {
		return nil, err
	}
	return c, nil
}

// Policy returns what the consumer asks of the engine.
func (c *Consumer) Policy() ibid.Policy { return c.policy }

func (c *Consumer) setPolicy(takeover ibid.Takeover) error {
	base, err := c.engine.Policy(nil)
	if err != nil {
		return err
	}
	p, ack := c.opts.Policy, c.opts.AckTimeout
	p.Takeover, p.Detach = takeover, true
	or(&p.Retain, DefaultRetain)
	if p.Wait == 0 {
		p.Wait = DefaultWait
		if ack > 0 {
			p.Wait = min(p.Wait, ack/2)
		}
	}
	if p.MaxAttempts == 0 && base.MaxAttempts == 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	or(&p.Lease, max(base.Lease, ack))
	or(&p.MaxRun, max(base.MaxRun, p.Lease))
	merged, err := c.engine.Policy(&p)
	switch {
	case err != nil:
		return err
	case takeover == 0:
		return invalid("takeover is not set: choose ibid.Refuse, ibid.Retry or ibid.Probe")
	case merged.Lease < ack:
		return invalid("Policy.Lease is %v, shorter than AckTimeout (%v): the broker would still wait for a claim that has ended", merged.Lease, ack)
	case merged.Retain < c.opts.Horizon:
		return invalid("Policy.Retain is %v, shorter than Horizon (%v): a message that comes later would be processed again", merged.Retain, c.opts.Horizon)
	}
	c.policy = merged
	return nil
}

// Key is the operation that m is to this consumer, for Engine.Inspect and its
// relatives. Its digest is Engine.Digest(key).
func (c *Consumer) Key(m Message) ibid.Key {
	return ibid.Key{Scope: ibid.Join(c.name, m.Source), ID: m.ID}
}

func (c *Consumer) call(m Message) (ibid.Call, error) {
	switch {
	case m.Source == "":
		return ibid.Call{}, invalid("the message has no source")
	case m.ID == "":
		return ibid.Call{}, invalid("the message has no ID: a second delivery could not be told from another message")
	}
	return ibid.Call{
		Key:         c.Key(m),
		Fingerprint: c.engine.Fingerprint(m.Body),
		Policy:      &c.policy,
		Tx:          c.opts.Tx,
		Label:       c.name + " " + m.Source + " " + m.ID,
	}, nil
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: inbox: %w", ibid.ErrInvalid, fmt.Errorf(format, args...))
}

// KeepsDeadLetters reports whether Options.DeadLetter is set: adapters of brokers
// that keep no rejected message require it.
func (c *Consumer) KeepsDeadLetters() bool { return c.opts.DeadLetter != nil }

// AckTimeout returns Options.AckTimeout.
func (c *Consumer) AckTimeout() time.Duration { return c.opts.AckTimeout }
