package inboxtest

import (
	"context"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
)

// Broker is one empty queue of a real broker, and the adapter under test.
type Broker interface {
	// Publish puts a message with that ID on the queue, also when the queue has
	// had one with the same ID.
	Publish(ctx context.Context, id, body string) error
	// Consume processes what the queue delivers with the adapter, until ctx ends,
	// and returns when work that ran then has finished. The queue may give what
	// is not settled to another consumer as soon as ctx has ended. It
	// is called again, also while an earlier call has not returned.
	Consume(ctx context.Context, consumer *inbox.Consumer, work func(ctx context.Context, body string) error) error
	// LoseAcks has the next n acknowledgements not reach the broker.
	LoseAcks(n int)
	// Close drops the queue.
	Close() error
}

// Target is what the suite is run against.
type Target struct {
	// Open returns a new queue. Required.
	Open func(context.Context) (Broker, error)
	// Store returns the store of a case. Default: a new memstore.Store.
	Store func(context.Context) (ibid.Store, error)
	// AckTimeout is how long the broker waits for an answer, for
	// inbox.Options.AckTimeout. Default 0: for ever.
	AckTimeout time.Duration
	// Patience bounds how long a case waits for something that must happen.
	// Default 30 s.
	Patience time.Duration
	// Parallel lets Run run cases at the same time.
	Parallel bool
}

// Case is one property.
type Case struct {
	// Name reads as a sentence.
	Name string
	// Why says what would break.
	Why string
	run func(*env)
}

// Check puts target through the case. Nil means that the property holds.
func (c Case) Check(ctx context.Context, target Target) error {
	e, err := newEnv(ctx, target)
	if err != nil {
		return err
	}
	c.run(e)
	return e.close()
}

// Report is what became of one case.
type Report struct {
	Name, Why string
	Err       error
	Took      time.Duration
}

// Check puts target through every case and reports on each. It stops early when
// ctx ends.
func Check(ctx context.Context, target Target) []Report {
	var reports []Report
	for _, c := range Cases() {
		if ctx.Err() != nil {
			break
		}
		start := time.Now()
		err := c.Check(ctx, target)
		reports = append(reports, Report{Name: c.Name, Why: c.Why, Err: err, Took: time.Since(start)})
	}
	return reports
}

// T is what Run uses of a *testing.T.
type T[S any] interface {
	Run(name string, f func(S)) bool
	Parallel()
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
}

// Run puts target through every case, each as a subtest of t.
func Run[S T[S]](t S, target Target) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t S) {
			t.Helper()
			if target.Parallel {
				t.Parallel()
			}
			if err := c.Check(t.Context(), target); err != nil {
				t.Errorf("%v\nwhy: %s", err, c.Why)
			}
		})
	}
}
