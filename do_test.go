package ibid_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

func TestEveryCallGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	runs := 0
	first, out := must(t, e, order, returns("charged", &runs))
	if first != "charged" || out.Replayed || out.Attempt != 1 || out.Fence == 0 || out.Expires != ibid.DefaultRetain {
		t.Fatalf("first: %q %+v", first, out)
	}
	for range 3 {
		again, out := must(t, e, order, returns("charged twice", &runs))
		if again != "charged" || !out.Replayed || out.Attempt != 1 || out.Expires <= 0 {
			t.Fatalf("replay: %q %+v", again, out)
		}
	}
	if runs != 1 {
		t.Fatalf("ran %d times", runs)
	}
}

func TestAResultBelongsToItsCaller(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	runs := 0
	first, _, _ := e.Do(t.Context(), order, returns("charged", &runs))
	first[0] = 'X'
	second, _, _ := e.Do(t.Context(), order, returns("", &runs))
	second[0] = 'Y'
	if third, _ := must(t, e, order, returns("", &runs)); third != "charged" {
		t.Fatalf("a caller changed what others get: %q", third)
	}
}

// How work ended, and what the next caller is told.
func TestHowWorkEnds(t *testing.T) {
	t.Parallel()
	errDeclined := errors.New("declined")
	started := func(err error) ibid.Work {
		return func(ctx context.Context) ([]byte, error) {
			ibid.EffectStarted(ctx)
			return nil, err
		}
	}
	for _, tc := range []struct {
		name, why string
		policy    ibid.Policy
		work      ibid.Work
		first     error // of the call that ran the work
		then      error // of the next call; nil when it runs the work
	}{
		{
			"a reported failure releases the key", "a declined card could never be tried again",
			ibid.Policy{},
			fails(errDeclined), errDeclined, nil,
		},
		{
			"a final error is recorded", "a caller would be charged for an order that was refused for good",
			ibid.Policy{},
			fails(ibid.Final(errDeclined)), errDeclined, &ibid.FinalError{},
		},
		{
			"a failure after the effect started is unknown", "the charge may have gone through",
			ibid.Policy{},
			started(errDeclined), ibid.ErrUnknown, ibid.ErrUnknown,
		},
		{
			"a final error after the effect started is final", "the work knows how it ended",
			ibid.Policy{},
			started(ibid.Final(errDeclined)), errDeclined, &ibid.FinalError{},
		},
		{
			"a deadline of the downstream is unknown", "a timeout says nothing of the effect",
			ibid.Policy{},
			fails(context.DeadlineExceeded), ibid.ErrUnknown, ibid.ErrUnknown,
		},
		{
			"a cancellation is unknown", "work that was cut off may have had its effect",
			ibid.Policy{},
			fails(context.Canceled), ibid.ErrUnknown, ibid.ErrUnknown,
		},
		{
			"under Retry the next call runs after a vanished one", "the operation would hang for a day",
			ibid.Policy{Takeover: ibid.Retry},
			fails(context.Canceled), ibid.ErrUnknown, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, nil, nil)
			_, _, err := e.Do(t.Context(), with(tc.policy), tc.work)
			if !errors.Is(err, tc.first) {
				t.Fatalf("first call: %v, want %v: %s", err, tc.first, tc.why)
			}
			runs := 0
			_, _, err = e.Do(t.Context(), with(tc.policy), returns("done", &runs))
			var final *ibid.FinalError
			switch {
			case tc.then == nil:
				if err != nil || runs != 1 {
					t.Fatalf("next call: %v after %d runs, want a run: %s", err, runs, tc.why)
				}
			case runs != 0:
				t.Fatalf("next call ran the work: %s", tc.why)
			case errors.As(tc.then, &final):
				if !errors.As(err, &final) || final.Message != "declined" {
					t.Fatalf("next call: %v, want the recorded failure: %s", err, tc.why)
				}
			case !errors.Is(err, tc.then):
				t.Fatalf("next call: %v, want %v: %s", err, tc.then, tc.why)
			}
		})
	}
}

// Work that never returns to the engine: the claim is settled before the panic
// goes on.
func TestWorkThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	panics := func(context.Context) ([]byte, error) { panic("boom") }
	exits := func(context.Context) ([]byte, error) { runtime.Goexit(); return nil, nil }
	startedAndPanics := func(ctx context.Context) ([]byte, error) { ibid.EffectStarted(ctx); panic("boom") }
	for _, tc := range []struct {
		name   string
		policy ibid.Policy
		work   ibid.Work
		then   error
	}{
		{"a panic is unknown", ibid.Policy{}, panics, ibid.ErrUnknown},
		{"a Goexit is unknown", ibid.Policy{}, exits, ibid.ErrUnknown},
		{"a panic releases where it is said to have no effect", ibid.Policy{ReleaseOnPanic: true}, panics, nil},
		{"a panic after the effect started never releases", ibid.Policy{ReleaseOnPanic: true}, startedAndPanics, ibid.ErrUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, nil, nil)
			ended := make(chan any)
			go func() {
				defer close(ended)
				defer func() { ended <- recover() }()
				e.Do(t.Context(), with(tc.policy), tc.work)
			}()
			if got := <-ended; got != nil && got != "boom" {
				t.Fatalf("the panic was replaced by %v", got)
			}
			runs := 0
			_, _, err := e.Do(t.Context(), with(tc.policy), returns("", &runs))
			if !errors.Is(err, tc.then) || (tc.then == nil) != (runs == 1) {
				t.Fatalf("next call: %v after %d runs, want %v", err, runs, tc.then)
			}
		})
	}
}

func TestAKeyReusedForAnotherRequestNeverRuns(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	mine, other := order, order
	mine.Fingerprint = e.Fingerprint([]byte("3000 TWD"))
	other.Fingerprint = e.Fingerprint([]byte("9000 TWD"))
	runs := 0
	_, _, err := e.Do(t.Context(), mine, func(ctx context.Context) ([]byte, error) {
		_, _, err := e.Do(ctx, other, returns("", &runs))
		wants(t, err, ibid.ErrMismatch) // mismatch beats in progress
		waits := other
		waits.Policy = &ibid.Policy{Wait: time.Hour}
		_, _, err = e.Do(ctx, waits, returns("", &runs))
		wants(t, err, ibid.ErrMismatch) // and is not waited for
		return []byte("ok"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = e.Do(t.Context(), other, returns("", &runs))
	wants(t, err, ibid.ErrMismatch)
	if runs != 0 {
		t.Fatal("another request ran under a used key")
	}
}

func TestAReleasedKeyTakesAnotherRequest(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	typo, repaired := order, order
	typo.Fingerprint = e.Fingerprint([]byte("-3000"))
	repaired.Fingerprint = e.Fingerprint([]byte("3000"))
	runs := 0
	e.Do(t.Context(), typo, fails(errors.New("amount is negative")))
	must(t, e, repaired, returns("ok", &runs))
}

func TestScopesAndKeysDoNotMeet(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	keys := []ibid.Key{
		{Scope: "a:b", ID: "c"},
		{Scope: "a", ID: "b:c"},
		{Scope: "a", ID: "b"},
		{Scope: "A", ID: "b"},
		{Scope: "a", ID: "b "},
		{Scope: "a", ID: "b\x00"},
		{Scope: "a\x00b", ID: "c"},
		{Scope: "ab", ID: "c"},
		{Scope: "a", ID: "bc"},
		{Scope: ibid.Join("a", "b"), ID: "c"},
		{Scope: "a", ID: ibid.Join("b", "c")},
	}
	runs := 0
	for _, k := range keys {
		must(t, e, ibid.Call{Key: k}, returns(k.Scope+k.ID, &runs))
	}
	if runs != len(keys) {
		t.Fatalf("%d keys made %d operations", len(keys), runs)
	}
}

func TestAttemptsAreCapped(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	call := with(ibid.Policy{MaxAttempts: 3})
	errBusy := errors.New("busy")
	for range 3 {
		_, _, err := e.Do(t.Context(), call, fails(errBusy))
		wants(t, err, errBusy)
	}
	_, _, err := e.Do(t.Context(), call, fails(errBusy))
	wants(t, err, ibid.ErrAttempts)
}

func TestTakeoversAreCapped(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	call := with(ibid.Policy{Takeover: ibid.Retry, MaxTakeovers: 2})
	runs := 0
	for range 5 {
		_, _, err := e.Do(t.Context(), call, func(context.Context) ([]byte, error) {
			runs++
			return nil, context.Canceled
		})
		wants(t, err, ibid.ErrUnknown)
	}
	if runs != 3 {
		t.Fatalf("a poison key ran %d times, want the first and two takeovers", runs)
	}
}

func TestTheWindowEnds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		wait time.Duration
		want error
		runs int
	}{
		{"a nanosecond before the window ends the answer is replayed", time.Hour - 1, nil, 1},
		{"when it ends the key is refused as expired", time.Hour, ibid.ErrExpired, 1},
		{"a nanosecond before it is forgotten, too", 2*time.Hour - 1, ibid.ErrExpired, 1},
		{"when it is forgotten the work is a new operation", 2 * time.Hour, nil, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, nil, nil)
				call := with(ibid.Policy{Retain: time.Hour, Remember: time.Hour})
				runs := 0
				_, out := must(t, e, call, returns("1", &runs))
				time.Sleep(tc.wait)
				_, again, err := e.Do(t.Context(), call, returns("2", &runs))
				if !errors.Is(err, tc.want) || runs != tc.runs {
					t.Fatalf("%v after %d runs, want %v after %d", err, runs, tc.want, tc.runs)
				}
				if runs == 2 && again.Fence <= out.Fence {
					t.Fatalf("the fence fell from %d to %d over the window", out.Fence, again.Fence)
				}
			})
		})
	}
}

func TestConfigurationThatCannotKeepAPromise(t *testing.T) {
	t.Parallel()
	ok := new(memstore.Store)
	key := []byte("0123456789abcdef0123456789abcdef")
	for _, tc := range []struct {
		name  string
		opts  ibid.Options
		names string // what the error must name
	}{
		{"a lease longer than MaxRun", ibid.Options{Policy: ibid.Policy{Lease: time.Hour}}, "Policy.Lease"},
		{"a lease nobody can renew in time", ibid.Options{Policy: ibid.Policy{Lease: time.Millisecond}}, "Policy.Lease"},
		{"MaxRun as long as the window", ibid.Options{Policy: ibid.Policy{MaxRun: time.Hour, Retain: time.Hour}}, "Policy.MaxRun"},
		{"a negative window", ibid.Options{Policy: ibid.Policy{Retain: -1}}, "Policy.Retain"},
		{"a window no clock can count", ibid.Options{Policy: ibid.Policy{Retain: 1<<63 - 1}}, "Policy.Retain"},
		{"a policy that does not exist", ibid.Options{Policy: ibid.Policy{Takeover: 9}}, "Policy.Takeover"},
		{"a negative suggestion", ibid.Options{Policy: ibid.Policy{RetryAfter: -1}}, "Policy.RetryAfter"},
		{"a short secret", ibid.Options{Secret: []byte("hunter2")}, "Options.Secret"},
		{"a short sealing key", ibid.Options{Seal: []ibid.SealKey{{ID: 1, Key: key[:16]}}}, "Options.Seal[0].Key"},
		{"one ID for two sealing keys", ibid.Options{Seal: []ibid.SealKey{{ID: 1, Key: key}, {ID: 1, Key: key}}}, "Options.Seal[1].ID"},
		{"a store that survives less", ibid.Options{Require: ibid.PowerLoss}, "Require"},
		{"a negative store timeout", ibid.Options{StoreTimeout: -1}, "Options.StoreTimeout"},
		{"a record timeout below the answer's", ibid.Options{AnswerTimeout: time.Minute, RecordTimeout: time.Second}, "Options.RecordTimeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := ibid.New(t.Context(), ok, &tc.opts)
			if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), tc.names) {
				t.Fatalf("error %v, want ErrInvalid that names %s", err, tc.names)
			}
		})
	}
	if _, err := ibid.New(t.Context(), nil, nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Fatalf("no store: %v", err)
	}
	if _, err := ibid.New(t.Context(), mute{ok}, &ibid.Options{Require: ibid.ProcessKill}); !errors.Is(err, ibid.ErrInvalid) {
		t.Fatalf("a store that does not describe itself: %v", err)
	}
}

func TestCallsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	probe := func(context.Context) (ibid.Found, []byte, error) { return ibid.FoundDone, nil, nil }
	for _, tc := range []struct {
		name, names string
		call        ibid.Call
	}{
		{"without a scope", "Key.Scope", ibid.Call{Key: ibid.Key{ID: "1"}}},
		{"without an ID", "Key.ID", ibid.Call{Key: ibid.Key{Scope: "a"}}},
		{"with a policy that cannot keep a promise", "Policy.Lease", with(ibid.Policy{Lease: 100 * time.Hour})},
		{"under Probe without a probe", "Call.Probe", with(ibid.Policy{Takeover: ibid.Probe})},
		{"with a probe that nothing asks", "Call.Probe", ibid.Call{Key: order.Key, Probe: probe}},
	} {
		runs := 0
		_, _, err := e.Do(t.Context(), tc.call, returns("", &runs))
		if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), tc.names) || runs > 0 {
			t.Errorf("a call %s: %v after %d runs, want ErrInvalid that names %s", tc.name, err, runs, tc.names)
		}
	}
}

func TestAnotherSecretDoesNotStart(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	for _, tc := range []struct {
		name          string
		first, second []byte
		ok            bool
	}{
		{"the same secret starts", secret, secret, true},
		{"another secret does not", secret, []byte("fedcba9876543210"), false},
		{"no secret does not, after one", secret, nil, false},
		{"a secret does not, after none", nil, secret, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := new(memstore.Store)
			newEngine(t, store, &ibid.Options{Secret: tc.first})
			_, err := ibid.New(t.Context(), store, &ibid.Options{Secret: tc.second})
			if (err == nil) != tc.ok || err != nil && !strings.Contains(err.Error(), "Options.Secret") {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestCallerThatIsGoneRunsNothing(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	runs := 0
	_, _, err := e.Do(ctx, order, returns("", &runs))
	wants(t, err, context.Canceled)
	if runs != 0 {
		t.Fatal("the work ran")
	}
}
