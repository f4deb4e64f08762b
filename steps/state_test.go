package steps

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/ibid-go/ibid"
)

func sample() state {
	return state{request: []byte{}, steps: []*step{
		{name: "charge", attempts: 1, done: true, result: []byte(`{"id":"ch_1"}`)},
		{name: "in a transaction", done: true, result: []byte{}},
		{name: "order", attempts: 300},
		{name: "reached only", here: true},
	}}
}

func TestStateSurvivesItsBytes(t *testing.T) {
	t.Parallel()
	s := sample()
	got, err := decode(s.append(nil))
	if err != nil || got.request == nil || len(got.request) != 0 || len(got.steps) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, st := range got.steps {
		want := s.steps[i]
		if st.name != want.name || st.attempts != want.attempts || st.done != want.done || !bytes.Equal(st.result, want.result) {
			t.Errorf("%+v, want %+v", st, want)
		}
	}
	if got, err := decode((&state{}).append(nil)); err != nil || got.request != nil || got.steps != nil {
		t.Errorf("empty: %+v, %v", got, err)
	}
}

func TestDamagedStateIsRefused(t *testing.T) {
	t.Parallel()
	s := sample()
	whole := s.append(nil)
	for _, row := range []struct {
		name, why string
		data      []byte
	}{
		{"no bytes", "an empty state is not an absent one", []byte{}},
		{"a later version", "a step that this program cannot see would run again", append([]byte{2}, whole[1:]...)},
		{"something behind", "what is not understood may matter", append(slices.Clone(whole), 0)},
		{"a name twice", "which of them is meant", []byte{1, 0, 2, 1, 'a', 1, 0, 1, 'a', 1, 0}},
		{"a step without a name", "it is nobody's", []byte{1, 0, 1, 0, 1, 0}},
		{"a step that was not begun", "nobody wrote it", []byte{1, 0, 1, 1, 'a', 0, 0}},
		{"a length beyond the end", "", []byte{1, 0, 1, 200, 'a'}},
		{"more steps than bytes", "a decoder would take all memory", []byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		{"a status that does not exist", "", []byte{1, 0, 1, 1, 'a', 1, 2}},
	} {
		if got, err := decode(row.data); !errors.Is(err, ibid.ErrDamaged) {
			t.Errorf("%s: %+v, %v, want ErrDamaged: %s", row.name, got, err, row.why)
		}
	}
	for n := 1; n < len(whole); n++ {
		if _, err := decode(whole[:n]); !errors.Is(err, ibid.ErrDamaged) {
			t.Errorf("the first %d of %d bytes: %v, want ErrDamaged", n, len(whole), err)
		}
	}
}

// Whatever the bytes, the decoder takes them or says that they are damaged, and
// what it took it writes and takes again.
func FuzzState(f *testing.F) {
	s := sample()
	f.Add(s.append(nil))
	f.Add((&state{}).append(nil))
	f.Add([]byte{1, 0, 1, 1, 'a', 1, 2})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		if data == nil {
			data = []byte{}
		}
		s, err := decode(data)
		if err != nil {
			if !errors.Is(err, ibid.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		b := s.append(nil)
		again, err := decode(b)
		if err != nil || !bytes.Equal(again.append(nil), b) {
			t.Fatalf("%v: %x became %x", err, data, b)
		}
	})
}
