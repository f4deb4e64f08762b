package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/ibid-go/ibid"
)

// Produce adds messages to what the work of ctx produces. Nothing is sent before
// the work has succeeded and its result is recorded. A message without an ID gets
// a derived key, by its place: work that runs again and produces the same in the
// same order gives the same IDs.
//
// ErrInvalid reports that ctx belongs to no work of a Consumer, or that the
// consumer has no Options.Emit.
func Produce(ctx context.Context, messages ...Produced) error {
	c, _ := ctx.Value(collectionKey{}).(*collection)
	switch {
	case c == nil:
		return invalid("Produce: the context belongs to no work of a consumer")
	case !c.emits:
		return invalid("Produce: Options.Emit is not set, so nobody would send the message")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		if m.ID == "" {
			m.ID = ibid.DerivedKey(ctx, "produced "+strconv.Itoa(len(c.messages)))
		}
		c.messages = append(c.messages, m)
	}
	return nil
}

type collectionKey struct{}

// collection is what one attempt produces.
type collection struct {
	emits    bool
	mu       sync.Mutex
	messages []Produced
}

func collect(ctx context.Context, emits bool) (context.Context, *collection) {
	c := &collection{emits: emits}
	return context.WithValue(ctx, collectionKey{}, c), c
}

// encode returns the result to record: nothing, or the messages as JSON.
func (c *collection) encode() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.messages) == 0 {
		return nil, nil
	}
	return json.Marshal(c.messages)
}

// emit sends what the recorded result says was produced. A result that cannot be
// read is not acknowledged.
func (c *Consumer) emit(ctx context.Context, m Message, result []byte, d *Decision) {
	if len(result) == 0 {
		return
	}
	if err := json.Unmarshal(result, &d.Produced); err != nil {
		*d = c.rejected(ctx, m, *d, fmt.Errorf("%w: result is no list of messages: %w", ibid.ErrDamaged, err))
		return
	}
	if c.opts.Emit == nil {
		d.Verdict, d.Delay, d.Err = Retry, c.policy.RetryAfter, invalid("messages were produced, and Options.Emit is not set")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := c.opts.Emit(ctx, m, d.Produced); err != nil {
		d.Verdict, d.Delay, d.Err = Retry, c.policy.RetryAfter, fmt.Errorf("emit: %w", err)
	}
}
