package steps

import (
	"encoding/binary"
	"fmt"

	"github.com/ibid-go/ibid"
)

// State is at rest, all numbers being unsigned varints and all texts having their length
// before them:
//
//	version (one byte, 1)
//	request: 0, or its length + 1 and its bytes
//	number of steps, and of each: name, attempts that began it, and
//	0, or 1 and its result
//
// Whatever follows, repeats a name, or does not fit, is damage.
const stateVersion = 1

// state is what is kept of an operation between attempts.
type state struct {
	request []byte // nil when none is kept
	steps   []*step
}

type step struct {
	name     string
	attempts int
	done     bool
	result   []byte
	here     bool // reached by this attempt
}

func (s *state) find(name string) *step {
	for _, st := range s.steps {
		if st.name == name {
			return st
		}
	}
	return nil
}

// reach returns the step of that name, which this attempt reaches for the first time.
func (s *state) reach(name string) (*step, error) {
	st := s.find(name)
	switch {
	case name == "":
		return nil, fmt.Errorf("%w: steps: a step has no name", ibid.ErrInvalid)
	case st == nil:
		st = &step{name: name}
		s.steps = append(s.steps, st)
	case st.here:
		return nil, fmt.Errorf("%w: steps: two steps are named %q", ibid.ErrInvalid, name)
	}
	st.here = true
	return st, nil
}

// reached returns a step of an earlier attempt that this one has not reached.
func (s *state) reached() (missing string, all bool) {
	for _, st := range s.steps {
		if !st.here {
			return st.name, false
		}
	}
	return "", true
}

func (s *state) append(b []byte) []byte {
	b = append(b, stateVersion)
	if s.request == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(len(s.request))+1)
		b = append(b, s.request...)
	}
	n := 0
	for _, st := range s.steps {
		if st.begun() {
			n++
		}
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, st := range s.steps {
		if !st.begun() {
			continue
		}
		b = appendText(b, []byte(st.name))
		b = binary.AppendUvarint(b, uint64(st.attempts))
		if !st.done {
			b = append(b, 0)
			continue
		}
		b = appendText(append(b, 1), st.result)
	}
	return b
}

// begun is false for a step that was reached and has left no mark.
func (st *step) begun() bool { return st.attempts > 0 || st.done }

func appendText(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// decode reads what append wrote; nil is the state of a first attempt.
func decode(data []byte) (s state, err error) {
	if data == nil {
		return s, nil
	}
	if len(data) == 0 {
		return s, fmt.Errorf("%w: step state is empty", ibid.ErrDamaged)
	}
	if data[0] != stateVersion {
		return s, fmt.Errorf("%w: step state version %d, this program knows %d", ibid.ErrDamaged, data[0], stateVersion)
	}
	r := reader{rest: data[1:]}
	if n := r.number(); n > 0 {
		s.request = r.take(n - 1)
	}
	for range r.number() {
		st := &step{name: string(r.take(r.number()))}
		attempts := r.number()
		st.attempts = int(min(attempts, 1<<31-1))
		switch r.number() {
		case 0:
		case 1:
			st.done, st.result = true, r.take(r.number())
		default:
			r.bad = true
		}
		if r.bad || st.name == "" || !st.begun() || s.find(st.name) != nil {
			r.bad = true
			break
		}
		s.steps = append(s.steps, st)
	}
	if r.bad || len(r.rest) > 0 {
		return state{}, fmt.Errorf("%w: step state does not add up", ibid.ErrDamaged)
	}
	return s, nil
}

// reader takes values off the front of rest; bad when one does not fit.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	taken := append([]byte{}, r.rest[:n]...)
	r.rest = r.rest[n:]
	return taken
}
