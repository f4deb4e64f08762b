package protocol

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

// encode puts a record together as the scripts would.
func encode(key *ibid.Digest, r *record.Record, after, over int64) []byte {
	state := byte(stateReleased)
	switch {
	case r.Held:
		state = stateHeld
	case r.Done:
		state = stateDone
	}
	b := appendSteps(appendBody(appendHead(nil, key, state, r.Token, after), key, r), key, r.Steps)
	if r.Done {
		b = appendResult(b, key, over, r.Result)
	}
	return b
}

var examples = []record.Record{
	{Held: true, Token: ibid.Token{1}, Fence: 1 << 60, Attempt: 1, Fingerprint: ibid.Fingerprint{2}, Scope: ibid.Digest{3}},
	{Held: true, Token: ibid.Token{1}, Fence: 7, Attempt: 300, Vanished: 299, Generation: 1 << 20, Fingerprint: ibid.Fingerprint{2}, Label: []byte("label"), Steps: []byte("steps")},
	{Done: true, Token: ibid.Token{1}, Fence: 7, Attempt: 2, Fingerprint: ibid.Fingerprint{2}, Result: []byte("receipt")},
	{Done: true, Token: ibid.Token{1}, Fence: 7, Attempt: 2, Fingerprint: ibid.Fingerprint{2}, Steps: []byte("steps"), Result: []byte{}},
	{Token: ibid.Token{1}, Fence: 7, Attempt: 2, Vanished: 1, Fingerprint: ibid.Fingerprint{2}},
	{Fence: 7, Generation: 1, Scope: ibid.Digest{3}},
}

func TestRecordsComeBack(t *testing.T) {
	t.Parallel()
	key := ibid.Digest{0xaa}
	for _, want := range examples {
		v, err := decode(&key, encode(&key, &want, 86_400_000, 1_790_000_000_000), true)
		if err != nil {
			t.Errorf("%+v: %v", want, err)
			continue
		}
		if v.after != 86_400_000 || want.Done && v.over != 1_790_000_000_000 {
			t.Errorf("after is %d, over is %d", v.after, v.over)
		}
		got := v.Record
		for _, p := range []*[]byte{&got.Label, &got.Steps, &got.Result, &want.Label, &want.Steps, &want.Result} {
			if len(*p) == 0 {
				*p = nil
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came back as %+v", want, got)
		}
	}
}

// The lease is told from what the key has left, whoever moved its expiry.
func TestTimesAreToldFromTheExpiry(t *testing.T) {
	t.Parallel()
	now := int64(1_790_000_000) * int64(time.Second)
	held := value{Record: examples[0], after: 60_000}
	for left, want := range map[int64]ibid.State{60_001: ibid.InProgress, 60_000: ibid.Lapsed, 1: ibid.Lapsed, 0: ibid.Absent} {
		r := held.at(now, left)
		if got := r.State(now); got != want {
			t.Errorf("a claim with %d ms left is %v, want %v", left, got, want)
		}
	}
	done := value{Record: examples[2], after: 60_000}
	for left, want := range map[int64]ibid.State{60_001: ibid.Completed, 60_000: ibid.Expired, 0: ibid.Absent} {
		r := done.at(now, left)
		if got := r.State(now); got != want {
			t.Errorf("a result with %d ms left is %v, want %v", left, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	key := ibid.Digest{0xaa}
	for _, r := range examples {
		f.Add(encode(&key, &r, 1000, 2000))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decode(&key, b, true)
		if err != nil {
			if !errors.Is(err, ibid.ErrDamaged) {
				t.Fatalf("%v is not ErrDamaged", err)
			}
			return
		}
		if v.Steps != nil && !bytes.Contains(b, v.Steps) {
			t.Fatal("steps are no part of the record")
		}
	})
}
