package inbox_test

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/memstore"
)

func TestAReplayIsAcknowledgedWithoutRunning(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Refuse, nil)
	first := b.process(b.effect)
	b.want(first, inbox.Ack, nil, 1)
	if got := b.state().State; got != ibid.Completed {
		t.Errorf("acknowledged while the record is %v", got)
	}
	again := b.process(b.effect)
	b.want(again, inbox.Ack, nil, 1)
	if first.Replayed || !again.Replayed {
		t.Errorf("Replayed is %v for the first delivery and %v for the second", first.Replayed, again.Replayed)
	}
}

func TestNeverAcknowledgedWhileAnotherDeliveryIsInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, nil)
		go b.process(func(ctx context.Context) error {
			time.Sleep(time.Minute)
			return b.effect(ctx)
		})
		synctest.Wait()
		start := time.Now()
		for range 20 { // more often than MaxAttempts
			d := b.process(b.effect)
			b.want(d, inbox.Retry, ibid.ErrInProgress, 0)
			if d.Delay <= 0 {
				t.Errorf("the delay is %v", d.Delay)
			}
		}
		if waited := time.Since(start); waited != 20*inbox.DefaultWait {
			t.Errorf("20 deliveries waited %v, want %v", waited, 20*inbox.DefaultWait)
		}
		time.Sleep(time.Minute)
		d := b.process(b.effect)
		b.want(d, inbox.Ack, nil, 1)
		if d.Attempt != 1 {
			t.Errorf("in-progress answers were counted: attempt %d", d.Attempt)
		}
	})
}

func TestADeliveryThatWaitsGetsTheResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, nil)
		go b.process(func(ctx context.Context) error {
			time.Sleep(time.Second)
			return b.effect(ctx)
		})
		synctest.Wait()
		b.want(b.process(b.effect), inbox.Ack, nil, 1)
	})
}

func TestAClaimThatWasLostIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, &inbox.Options{
			Policy: ibid.Policy{Lease: time.Second, Wait: -1}, AckTimeout: 500 * time.Millisecond,
		})
		var beats atomic.Int64
		b.store.set("extend", true)
		type outcome struct {
			d     inbox.Decision
			beats int64
		}
		paused := make(chan outcome)
		resume := make(chan struct{})
		go func() {
			d := b.consumer.Process(t.Context(), b.message, func(context.Context) error { beats.Add(1); return nil }, func(ctx context.Context) error {
				<-ctx.Done()
				before := beats.Load()
				<-resume // as if it had been stopped
				if n := beats.Load() - before; n > 0 {
					t.Errorf("the broker was told %d times that work goes on whose claim is lost", n)
				}
				return nil
			})
			paused <- outcome{d, beats.Load()}
		}()
		time.Sleep(2 * time.Second)
		second := make(chan inbox.Decision)
		finish := make(chan struct{})
		b.store.set("extend", false)
		go func() {
			second <- b.process(func(ctx context.Context) error { <-finish; return b.effect(ctx) })
		}()
		synctest.Wait()
		time.Sleep(5 * time.Second)
		close(resume)
		first := <-paused
		b.want(first.d, inbox.Leave, ibid.ErrClaimLost, 0)
		if first.beats == 0 {
			t.Error("no heartbeat while the claim held")
		}
		close(finish)
		b.want(<-second, inbox.Ack, nil, 1)
	})
}

func TestALoserDoesNotAcknowledgeTheWinnersResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, &inbox.Options{Policy: ibid.Policy{Lease: time.Second, Wait: -1}})
		b.store.set("extend", true)
		first := make(chan inbox.Decision)
		go func() {
			first <- b.process(func(context.Context) error { time.Sleep(time.Minute); return nil })
		}()
		time.Sleep(2 * time.Second)
		b.want(b.process(b.effect), inbox.Ack, nil, 1)
		b.want(<-first, inbox.Leave, ibid.ErrClaimLost, 1)
	})
}

func TestSameIDWithAnotherBodyIsRejected(t *testing.T) {
	t.Parallel()
	var dead []error
	b := newBench(t, ibid.Retry, &inbox.Options{DeadLetter: func(_ context.Context, _ inbox.Message, err error) error {
		dead = append(dead, err)
		return nil
	}})
	b.want(b.process(b.effect), inbox.Ack, nil, 1)
	b.message.Body = []byte("3 TWD")
	b.want(b.process(b.effect), inbox.Reject, ibid.ErrMismatch, 1)
	if len(dead) != 1 || !errors.Is(dead[0], ibid.ErrMismatch) {
		t.Errorf("dead letters: %v", dead)
	}
}

func TestATransientErrorIsRetriedLaterAndLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Refuse, &inbox.Options{RetryMax: 5 * time.Second, Policy: ibid.Policy{MaxAttempts: 6}})
	var delays []time.Duration
	for range 5 {
		d := b.process(func(context.Context) error { return errDown })
		b.want(d, inbox.Retry, errDown, 0)
		if got := b.state().State; got != ibid.Released {
			t.Fatalf("the key is %v", got)
		}
		delays = append(delays, d.Delay)
	}
	want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}
	if !reflect.DeepEqual(delays, want) {
		t.Errorf("delays are %v, want %v", delays, want)
	}
	b.want(b.process(b.effect), inbox.Ack, nil, 1)
}

func TestAPoisonMessageIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Retry, &inbox.Options{Policy: ibid.Policy{MaxAttempts: 3}})
	fail := func(context.Context) error { _ = b.effect(context.Background()); return errDown }
	b.want(b.process(fail), inbox.Retry, errDown, 1)
	b.want(b.process(fail), inbox.Retry, errDown, 2)
	b.want(b.process(fail), inbox.Reject, ibid.ErrAttempts, 3)
	b.want(b.process(fail), inbox.Reject, ibid.ErrAttempts, 3)
}

func TestAFinalErrorIsTheSameForEveryDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Retry, nil)
	d := b.process(func(context.Context) error { return ibid.Final(errors.New("no such account")) })
	b.want(d, inbox.Reject, nil, 0)
	for range 2 {
		d = b.process(b.effect)
		var final *ibid.FinalError
		if d.Verdict != inbox.Reject || !errors.As(d.Err, &final) || final.Message != "no such account" || b.effects.Load() != 0 {
			t.Fatalf("%v (%v) after %d effects", d.Verdict, d.Err, b.effects.Load())
		}
	}
}

func TestAPanicIsVanishedWork(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		takeover ibid.Takeover
		verdict  inbox.Verdict
		err      error
		effects  int
	}{
		{ibid.Refuse, inbox.Reject, ibid.ErrUnknown, 0},
		{ibid.Retry, inbox.Ack, nil, 1},
	} {
		t.Run(row.takeover.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, row.takeover, nil)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was swallowed")
					}
				}()
				b.process(func(context.Context) error { panic("boom") })
			}()
			if got := b.state().State; got != ibid.Lapsed {
				t.Errorf("after the panic the key is %v", got)
			}
			b.want(b.process(b.effect), row.verdict, row.err, row.effects)
		})
	}
}

func TestAFailureAfterTheEffectStarted(t *testing.T) {
	t.Parallel()
	fail := func(ctx context.Context) error { ibid.EffectStarted(ctx); return errDown }
	b := newBench(t, ibid.Refuse, nil)
	b.want(b.process(fail), inbox.Reject, ibid.ErrUnknown, 0)
	b.want(b.process(b.effect), inbox.Reject, ibid.ErrUnknown, 0)

	b = newBench(t, ibid.Retry, nil)
	b.want(b.process(fail), inbox.Retry, ibid.ErrUnknown, 0)
	b.want(b.process(func(ctx context.Context) error {
		if a, _ := ibid.AttemptFrom(ctx); a.Vanished != 1 {
			t.Errorf("the work is told of %d vanished attempts", a.Vanished)
		}
		return b.effect(ctx)
	}), inbox.Ack, nil, 1)
}

func TestResultThatIsNotRecordedIsNeitherAcknowledgedNorReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, nil)
		b.store.set("complete", true)
		d := b.process(b.effect)
		b.want(d, inbox.Retry, ibid.ErrNotRecorded, 1)
		if got := b.state().State; got != ibid.InProgress {
			t.Errorf("the key is %v", got)
		}
		b.store.set("complete", false)
		time.Sleep(15 * time.Second) // the engine records it late
		b.want(b.process(b.effect), inbox.Ack, nil, 1)
	})
}

func TestAStoreThatIsDownRunsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, nil)
		b.store.set("begin", true)
		d := b.process(b.effect)
		b.want(d, inbox.Retry, ibid.ErrUnavailable, 0)
		if d.Delay <= 0 {
			t.Error("asked again at once")
		}
		b.store.set("begin", false)
		b.want(b.process(b.effect), inbox.Ack, nil, 1)
	})
}

func TestTwoConsumersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Refuse, nil)
	b.want(b.process(b.effect), inbox.Ack, nil, 1)
	other, err := inbox.New(b.engine, "mailing", ibid.Refuse, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := other.Process(t.Context(), b.message, nil, b.effect)
	b.want(d, inbox.Ack, nil, 2)
	b.message.Source = "refunds"
	b.want(b.process(b.effect), inbox.Ack, nil, 3)
}

func TestAMessageWithoutIdentityIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Retry, nil)
	b.message.ID = ""
	b.want(b.process(b.effect), inbox.Reject, ibid.ErrInvalid, 0)
	b.message.ID, b.message.Source = "17", ""
	b.want(b.process(b.effect), inbox.Reject, ibid.ErrInvalid, 0)
}

func TestADeadLetterThatIsNotKeptIsAskedForAgain(t *testing.T) {
	t.Parallel()
	kept := errDown
	b := newBench(t, ibid.Refuse, &inbox.Options{DeadLetter: func(context.Context, inbox.Message, error) error { return kept }})
	final := func(context.Context) error { return ibid.Final(errCut) }
	b.want(b.process(final), inbox.Retry, errDown, 0)
	kept = nil
	b.want(b.process(b.effect), inbox.Reject, nil, 0)
}

func TestWorkThatUsesIbidItselfIsNotMistakenForTheMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Refuse, nil)
	d := b.process(func(context.Context) error { return ibid.ErrMismatch })
	b.want(d, inbox.Retry, ibid.ErrMismatch, 0)
	b.want(b.process(b.effect), inbox.Ack, nil, 1)
}

func TestProducedMessagesAreEmittedAgainOnReplay(t *testing.T) {
	t.Parallel()
	var emitted [][]inbox.Produced
	fails := errDown
	b := newBench(t, ibid.Retry, &inbox.Options{Emit: func(_ context.Context, _ inbox.Message, p []inbox.Produced) error {
		emitted = append(emitted, p)
		return fails
	}})
	var key string
	work := func(ctx context.Context) error {
		key = ibid.DerivedKey(ctx, "produced 1")
		err := inbox.Produce(ctx, inbox.Produced{ID: "own", Body: []byte("a")}, inbox.Produced{Topic: "mail", Header: map[string]string{"x": "y"}})
		return errors.Join(err, b.effect(ctx))
	}
	b.want(b.process(work), inbox.Retry, errDown, 1) // recorded, and not emitted
	fails = nil
	d := b.process(work)
	b.want(d, inbox.Ack, nil, 1)
	want := []inbox.Produced{{ID: "own", Body: []byte("a")}, {ID: key, Topic: "mail", Header: map[string]string{"x": "y"}}}
	for i, got := range append(emitted, d.Produced) {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("emitted %d: %v, want %v", i, got, want)
		}
	}
	if len(emitted) != 2 {
		t.Errorf("emitted %d times", len(emitted))
	}
}

func TestProduceRefusesWhatNobodyWouldSend(t *testing.T) {
	t.Parallel()
	if err := inbox.Produce(t.Context()); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("outside of work: %v", err)
	}
	b := newBench(t, ibid.Retry, nil)
	b.process(func(ctx context.Context) error {
		if err := inbox.Produce(ctx, inbox.Produced{}); !errors.Is(err, ibid.ErrInvalid) {
			t.Errorf("without Emit: %v", err)
		}
		return nil
	})
}

func TestAProbeDecides(t *testing.T) {
	t.Parallel()
	var emitted []inbox.Produced
	b := newBench(t, ibid.Probe, &inbox.Options{
		Probe: func(ctx context.Context, m inbox.Message) (ibid.Found, error) {
			return ibid.FoundDone, inbox.Produce(ctx, inbox.Produced{ID: m.ID + " charged"})
		},
		Emit: func(_ context.Context, _ inbox.Message, p []inbox.Produced) error { emitted = p; return nil },
	})
	b.want(b.process(func(ctx context.Context) error { ibid.EffectStarted(ctx); return errDown }), inbox.Retry, ibid.ErrUnknown, 0)
	b.want(b.process(b.effect), inbox.Ack, nil, 0)
	if len(emitted) != 1 || emitted[0].ID != "17 charged" {
		t.Errorf("emitted %v", emitted)
	}
}

func TestTheHeartbeatGoesOnWhileTheWorkDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, &inbox.Options{AckTimeout: 30 * time.Second})
		var beats atomic.Int64
		beat := func(context.Context) error { beats.Add(1); return errCut }
		d := b.consumer.Process(t.Context(), b.message, beat, func(ctx context.Context) error {
			time.Sleep(65 * time.Second)
			return b.effect(ctx)
		})
		b.want(d, inbox.Ack, nil, 1)
		if n := beats.Load(); n != 6 {
			t.Errorf("%d beats in 65 s, want one every 10 s", n)
		}
		time.Sleep(time.Minute)
		if n := beats.Load(); n != 6 {
			t.Errorf("%d beats after the end", n-6)
		}
	})
}

func TestNoHeartbeatAfterMaxRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, &inbox.Options{
			AckTimeout: 3 * time.Second, Policy: ibid.Policy{Lease: 3 * time.Second, MaxRun: 10 * time.Second},
		})
		var beats atomic.Int64
		b.consumer.Process(t.Context(), b.message, func(context.Context) error { beats.Add(1); return nil }, func(context.Context) error {
			time.Sleep(time.Minute) // deaf
			return nil
		})
		if n := beats.Load(); n > 10 {
			t.Errorf("%d beats, one per second, with MaxRun 10 s", n)
		}
	})
}

func TestACancelledConsumerGivesTheMessageBackAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Retry, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := b.consumer.Process(ctx, b.message, nil, b.effect)
	b.want(d, inbox.Retry, context.Canceled, 0)
	if d.Delay != 0 {
		t.Errorf("delay %v", d.Delay)
	}
}

func TestCancellationDoesNotReachTheWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, ibid.Retry, nil)
	ctx, cancel := context.WithCancel(t.Context())
	d := b.consumer.Process(ctx, b.message, nil, func(ctx context.Context) error {
		cancel() // the broker's ack timeout, say
		return errors.Join(ctx.Err(), b.effect(ctx))
	})
	b.want(d, inbox.Ack, nil, 1)
}

func TestNewRefusesWhatCannotKeepAPromise(t *testing.T) {
	t.Parallel()
	engine, err := ibid.New(t.Context(), new(memstore.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	retrying, err := ibid.New(t.Context(), new(memstore.Store), &ibid.Options{Policy: ibid.Policy{Takeover: ibid.Retry}})
	if err != nil {
		t.Fatal(err)
	}
	probe := func(context.Context, inbox.Message) (ibid.Found, error) { return 0, nil }
	for _, row := range []struct {
		name     string
		engine   *ibid.Engine
		consumer string
		takeover ibid.Takeover
		opts     inbox.Options
		ok       bool
	}{
		{"defaults", engine, "c", ibid.Refuse, inbox.Options{}, true},
		{"no name: two consumers would be one", engine, "", ibid.Refuse, inbox.Options{}, false},
		{"the window ends before the broker does", engine, "c", ibid.Retry, inbox.Options{Horizon: 14 * 24 * time.Hour}, false},
		{"a window as long as the horizon", engine, "c", ibid.Retry, inbox.Options{Horizon: 7 * 24 * time.Hour}, true},
		{"a lease shorter than the broker's patience", engine, "c", ibid.Retry, inbox.Options{AckTimeout: time.Minute, Policy: ibid.Policy{Lease: time.Second}}, false},
		{"a long patience makes a long lease", engine, "c", ibid.Retry, inbox.Options{AckTimeout: 30 * time.Minute}, true},
		{"a probe without a function", engine, "c", ibid.Probe, inbox.Options{}, false},
		{"a function without a probe", engine, "c", ibid.Retry, inbox.Options{Probe: probe}, false},
		{"a refusal, over an engine that retries", retrying, "c", ibid.Refuse, inbox.Options{}, true},
		{"no takeover policy at all", retrying, "c", 0, inbox.Options{}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, err := inbox.New(row.engine, row.consumer, row.takeover, &row.opts)
			if ok := err == nil; ok != row.ok || !ok && !errors.Is(err, ibid.ErrInvalid) {
				t.Fatalf("%v", err)
			}
			if row.ok && (c.Policy().Lease < row.opts.AckTimeout || c.Policy().Retain != inbox.DefaultRetain || !c.Policy().Detach) {
				t.Errorf("policy %+v", c.Policy())
			}
		})
	}
}

func TestAMessageIsRememberedForTheWholeWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ibid.Retry, &inbox.Options{Horizon: 7 * 24 * time.Hour})
		b.want(b.process(b.effect), inbox.Ack, nil, 1)
		time.Sleep(7*24*time.Hour - time.Second)
		b.want(b.process(b.effect), inbox.Ack, nil, 1)
		time.Sleep(2 * time.Second) // outside the declared horizon
		b.want(b.process(b.effect), inbox.Ack, nil, 2)
	})
}

func TestCloudEventIdentity(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		headers map[string]string
		body    string
		ok      bool
	}{
		{"HTTP and NATS", map[string]string{"ce-source": "/s", "ce-id": "1"}, "x", true},
		{"Kafka", map[string]string{"ce_source": "/s", "ce_id": "1"}, "x", true},
		{"AMQP", map[string]string{"cloudEvents:source": "/s", "cloudEvents:id": "1"}, "x", true},
		{"structured", map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}, `{"source":"/s","id":"1"}`, true},
		{"a body that looks like one", map[string]string{"Content-Type": "application/json"}, `{"source":"/s","id":"1"}`, false},
		{"no source: the ID is unique to nothing", map[string]string{"ce-id": "1"}, "x", false},
		{"half of one binding and half of another", map[string]string{"ce-id": "1", "ce_source": "/s"}, "x", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m, ok := inbox.CloudEvent(func(n string) string { return row.headers[n] }, []byte(row.body))
			if ok != row.ok || ok && (m.Source != "/s" || m.ID != "1" || string(m.Body) != row.body) {
				t.Errorf("%+v, %v", m, ok)
			}
		})
	}
}
