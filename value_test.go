package ibid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

type charge struct {
	Amount int
	note   string // not encoded
}

// The first caller gets what was recorded, not what the function returned.
func TestTheLiveAnswerEqualsTheReplay(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	do := func() (charge, ibid.Outcome) {
		c, out, err := ibid.Do(t.Context(), e, order, func(context.Context) (charge, error) {
			return charge{3000, "lost in encoding"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return c, out
	}
	first, _ := do()
	again, out := do()
	if first != again || first != (charge{Amount: 3000}) || !out.Replayed {
		t.Fatalf("%+v, then %+v %+v", first, again, out)
	}
}

func TestValuesThatAreNotKept(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		store ibid.Store
		value any
	}{
		{"too large for the engine", new(memstore.Store), strings.Repeat("x", 100)},
		{"that cannot be encoded", new(memstore.Store), func() {}},
		{"too large for the store", narrow{new(memstore.Store)}, strings.Repeat("x", 50)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, tc.store, &ibid.Options{MaxResult: 60})
			runs := 0
			do := func() (any, error) {
				v, _, err := ibid.Do(t.Context(), e, order, func(context.Context) (any, error) { runs++; return tc.value, nil })
				return v, err
			}
			v, err := do()
			if err != nil || fmt.Sprint(v) != fmt.Sprint(tc.value) {
				t.Fatalf("the first caller got %v %v", v, err)
			}
			_, err = do()
			wants(t, err, ibid.ErrNotKept)
			if runs != 1 {
				t.Fatal("ran again")
			}
		})
	}
}

// narrow is a store that can keep no result above 45 bytes.
type narrow struct{ ibid.Store }

func (n narrow) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	if len(result) > 45 {
		return ibid.ErrTooLarge
	}
	return n.Store.Complete(ctx, key, token, result, keep)
}

func TestAResultOfAnotherTypeIsNotGuessed(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	ibid.Do(t.Context(), e, order, func(context.Context) (string, error) { return "text", nil })
	_, _, err := ibid.Do(t.Context(), e, order, func(context.Context) (charge, error) { return charge{}, errors.New("ran") })
	wants(t, err, ibid.ErrDamaged)
}

func TestFunc(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	runs := 0
	square := ibid.Func(e, "square", func(_ context.Context, n int) (int, error) { runs++; return n * n, nil }, nil)
	cube := ibid.Func(e, "cube", func(_ context.Context, n int) (int, error) { runs++; return n * n * n, nil }, nil)
	for range 2 {
		for _, tc := range []struct {
			f    func(context.Context, int) (int, error)
			in   int
			want int
		}{{square, 3, 9}, {square, 4, 16}, {cube, 3, 27}} {
			if got, err := tc.f(t.Context(), tc.in); err != nil || got != tc.want {
				t.Fatalf("%d %v, want %d", got, err, tc.want)
			}
		}
	}
	if runs != 3 {
		t.Fatalf("ran %d times, want once for each function and input", runs)
	}
}

type transfer struct {
	ID     string
	Amount int
	Meta   map[string]string
}

// With a key of its own, other input is a mismatch; and the input is digested
// before the function can change it.
func TestFuncWithAKey(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	runs := 0
	pay := ibid.Func(e, "pay", func(_ context.Context, in transfer) (string, error) {
		runs++
		in.Meta["seen"] = "yes"
		return in.ID, nil
	}, &ibid.FuncOptions[transfer, string]{Key: func(in transfer) ibid.Key { return ibid.Key{Scope: "pay", ID: in.ID} }})
	for range 2 {
		if _, err := pay(t.Context(), transfer{"t-1", 3000, map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := pay(t.Context(), transfer{"t-1", 9000, map[string]string{}})
	wants(t, err, ibid.ErrMismatch)
	if runs != 1 {
		t.Fatalf("ran %d times", runs)
	}
}

func TestFuncProbes(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, nil)
	charges := map[string]int{}
	pay := ibid.Func(e, "pay", func(ctx context.Context, amount int) (charge, error) {
		charges[ibid.DerivedKey(ctx, "charge")] = amount
		return charge{}, context.DeadlineExceeded // charged, but the answer was lost
	}, &ibid.FuncOptions[int, charge]{
		Policy: &ibid.Policy{Takeover: ibid.Probe},
		Probe: func(ctx context.Context, _ int) (ibid.Found, charge, error) {
			amount, ok := charges[ibid.DerivedKey(ctx, "charge")]
			if !ok {
				return ibid.FoundNotDone, charge{}, nil
			}
			return ibid.FoundDone, charge{Amount: amount}, nil
		},
	})
	_, err := pay(t.Context(), 3000)
	wants(t, err, ibid.ErrUnknown)
	if c, err := pay(t.Context(), 3000); err != nil || c.Amount != 3000 || len(charges) != 1 {
		t.Fatalf("%+v %v, %d charges", c, err, len(charges))
	}
	if !uuid8.MatchString(fmt.Sprint(firstKey(charges))) {
		t.Fatalf("derived key %q is no UUID", firstKey(charges))
	}
}

func firstKey(m map[string]int) string {
	for k := range m {
		return k
	}
	return ""
}

// CompleteTx, as a store offers it: the result stands with the effect, whatever
// the work then returns.
func TestPreparedCompletion(t *testing.T) {
	t.Parallel()
	errCommit := errors.New("the reply to COMMIT was lost")
	for _, tc := range []struct {
		name      string
		committed bool
		err       error
		want      error
	}{
		{"committed and reported", true, nil, nil},
		{"committed, and the work does not know", true, errCommit, nil},
		{"committed, and the work was cut off", true, context.Canceled, nil},
		{"rolled back and reported", false, errCommit, errCommit},
		{"rolled back, and the work was cut off", false, context.Canceled, ibid.ErrUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := new(memstore.Store)
			e := newEngine(t, store, &ibid.Options{Seal: []ibid.SealKey{sealKey(1)}})
			got, _, err := ibid.Do(t.Context(), e, order, func(ctx context.Context) (string, error) {
				c, err := ibid.Prepare(ctx, "in the transaction")
				if err != nil {
					return "", err
				}
				if _, err := ibid.Prepare(ctx, "again"); !errors.Is(err, ibid.ErrInvalid) {
					t.Errorf("prepared twice: %v", err)
				}
				if tc.committed {
					if err := store.Complete(ctx, c.Key, c.Token, c.Result, c.Keep); err != nil {
						return "", err
					}
				}
				return "returned", tc.err
			})
			if !errors.Is(err, tc.want) || err == nil && got != "in the transaction" {
				t.Fatalf("%q %v, want %v", got, err, tc.want)
			}
			if tc.committed {
				again, out, err := ibid.Do(t.Context(), e, order, func(context.Context) (string, error) { return "", errors.New("ran") })
				if err != nil || again != "in the transaction" || !out.Replayed {
					t.Fatalf("replay: %q %v", again, err)
				}
			}
		})
	}
	if _, err := ibid.Prepare(t.Context(), "x"); !errors.Is(err, ibid.ErrInvalid) {
		t.Fatalf("outside of work: %v", err)
	}
}

func TestFuncThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	probing := newEngine(t, nil, &ibid.Options{Policy: ibid.Policy{Takeover: ibid.Probe}})
	work := func(context.Context, int) (int, error) { return 0, nil }
	probe := func(context.Context, int) (ibid.Found, int, error) { return 0, 0, nil }
	for _, tc := range []struct {
		why  string
		make func()
	}{
		{"its records would be those of every other without a name", func() { ibid.Func(probing, "", work, nil) }},
		{"a claim would be taken for nothing", func() { ibid.Func[int, int](newEngine(t, nil, nil), "f", nil, nil) }},
		{"every call would be refused: there is nothing to ask", func() { ibid.Func(probing, "f", work, nil) }},
		{"every call would be refused: the probe is never asked", func() {
			ibid.Func(newEngine(t, nil, nil), "f", work, &ibid.FuncOptions[int, int]{Probe: probe})
		}},
	} {
		t.Run(tc.why, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was accepted")
				}
			}()
			tc.make()
		})
	}
	ibid.Func(probing, "f", work, &ibid.FuncOptions[int, int]{Probe: probe})
}
