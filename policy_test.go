package ibid_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// What every field makes of zero, of negative, and of the engine's own.
func TestPolicyOfACall(t *testing.T) {
	t.Parallel()
	type policy = ibid.Policy
	full := policy{
		Takeover: ibid.Retry, Lease: time.Minute, MaxRun: time.Hour, Retain: 2 * time.Hour, Remember: time.Hour, Wait: time.Minute,
		RetryAfter: time.Minute, MaxTakeovers: 3, MaxAttempts: 7, Guard: "pkey", ReleaseOnPanic: true, Detach: true,
	}
	defaults := policy{
		Takeover: ibid.Refuse, Lease: 30 * time.Second, MaxRun: 5 * time.Minute, Retain: 24 * time.Hour,
		RetryAfter: 2 * time.Second, MaxTakeovers: 5,
	}
	for _, tc := range []struct {
		name         string
		engine, call policy
		want         policy
	}{
		{"nothing set is the default", policy{}, policy{}, defaults},
		{"the engine's own stands for what the call leaves out", full, policy{}, full},
		{"the call's stands for what the engine leaves out", policy{}, full, full},
		{"a call refuses what its engine would retry", policy{Takeover: ibid.Retry}, policy{Takeover: ibid.Refuse}, defaults},
	} {
		e := newEngine(t, nil, &ibid.Options{Policy: tc.engine})
		if got, err := e.Policy(&tc.call); err != nil || got != tc.want {
			t.Errorf("%s: %+v %v, want %+v", tc.name, got, err, tc.want)
		}
	}
	if got, err := newEngine(t, nil, nil).Policy(nil); err != nil || got != defaults {
		t.Errorf("no policy at all: %+v %v", got, err)
	}
}

func TestNegativeFieldsOfAPolicy(t *testing.T) {
	t.Parallel()
	own := ibid.Policy{Takeover: ibid.Retry, Remember: time.Hour, Wait: time.Minute, MaxTakeovers: 1, MaxAttempts: 1}
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, &ibid.Options{Policy: own})
		call := with(ibid.Policy{Remember: -1, Wait: -1, MaxTakeovers: -1, MaxAttempts: -1})
		for range 5 { // neither takeovers nor attempts are bounded
			_, _, err := e.Do(t.Context(), call, fails(context.Canceled))
			wants(t, err, context.Canceled)
		}
		runs := 0
		must(t, e, call, func(ctx context.Context) ([]byte, error) {
			began := time.Now()
			_, _, err := e.Do(ctx, call, returns("", &runs)) // nor does it wait
			wants(t, err, ibid.ErrInProgress)
			if took := time.Since(began); took > 0 {
				t.Errorf("waited %v", took)
			}
			return nil, nil
		})
		time.Sleep(ibid.DefaultRetain) // nor is the key remembered
		must(t, e, call, returns("", &runs))
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

func TestOptionsThatCannotKeepAPromise(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	p := func(p ibid.Policy) ibid.Options { return ibid.Options{Policy: p} }
	for _, tc := range []struct {
		names string
		opts  ibid.Options
	}{
		{"Policy.Lease", p(ibid.Policy{Lease: -1})},
		{"Policy.Lease", p(ibid.Policy{Lease: 10*time.Millisecond - 1})},
		{"Policy.Lease", p(ibid.Policy{Lease: time.Hour})},
		{"Policy.MaxRun", p(ibid.Policy{MaxRun: -1})},
		{"Policy.MaxRun", p(ibid.Policy{MaxRun: 24 * time.Hour})},
		{"Policy.Retain", p(ibid.Policy{Retain: -1})},
		{"Policy.Retain", p(ibid.Policy{Retain: 101 * year})},
		{"Policy.Remember", p(ibid.Policy{Remember: 101 * year})},
		{"Policy.Wait", p(ibid.Policy{Wait: 101 * year})},
		{"Policy.RetryAfter", p(ibid.Policy{RetryAfter: -1})},
		{"Policy.Takeover", p(ibid.Policy{Takeover: 4})},
		{"Options.Secret", ibid.Options{Secret: make([]byte, 15)}},
		{"Options.Seal[0].Key", ibid.Options{Seal: []ibid.SealKey{{Key: make([]byte, 16)}}}},
		{"Options.Seal[1].ID", ibid.Options{Seal: []ibid.SealKey{{Key: make([]byte, 32)}, {Key: make([]byte, 32)}}}},
		{"Options.Require", ibid.Options{Require: ibid.ProcessKill}},
		{"Options.StoreTimeout", ibid.Options{StoreTimeout: -1}},
		{"Options.AnswerTimeout", ibid.Options{AnswerTimeout: -1}},
		{"Options.RecordTimeout", ibid.Options{RecordTimeout: time.Second}},
		{"Options.RecordTimeout", ibid.Options{RecordTimeout: -1}},
	} {
		_, err := ibid.New(t.Context(), mute{new(memstore.Store)}, &tc.opts)
		if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), tc.names) {
			t.Errorf("%+v: %v, want ErrInvalid that names %s", tc.opts, err, tc.names)
		}
	}
	for _, ok := range []ibid.Options{
		p(ibid.Policy{Lease: time.Minute, MaxRun: time.Minute}), // renewed twice, and over with its lease
		p(ibid.Policy{Lease: 10 * time.Millisecond}),
		p(ibid.Policy{Retain: 100 * year, Remember: 100 * year}),
		{AnswerTimeout: time.Hour}, // RecordTimeout's default follows
		{MaxResult: -1, MaxWaiters: -1, MaxPending: -1},
	} {
		e := newEngine(t, nil, &ok)
		for range 2 {
			if data, _ := must(t, e, order, returns("kept", new(int))); data != "kept" {
				t.Errorf("%+v: %q", ok, data)
			}
		}
	}
}
