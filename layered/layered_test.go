package layered_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/layered"
	"github.com/ibid-go/ibid/memstore"
)

// Once a process has seen a result, replays of it ask nobody.
func TestReplaysOfAWarmProcessCostNoRoundTrip(t *testing.T) {
	t.Parallel()
	decides, front := newStub(), newStub()
	s := layered.New(decides, &layered.Options{Front: front})
	engine, err := ibid.New(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := ibid.Call{Key: ibid.Key{Scope: "alice", ID: "k"}, Fingerprint: engine.Fingerprint([]byte("pay 3"))}
	runs := 0
	do := func(c ibid.Call) ([]byte, error) {
		b, _, err := engine.Do(t.Context(), c, func(context.Context) ([]byte, error) {
			runs++
			return []byte("paid"), nil
		})
		return b, err
	}
	for range 2 { // the run, and the replay that makes the process warm
		if b, err := do(call); err != nil || string(b) != "paid" {
			t.Fatalf("%q, %v", b, err)
		}
	}
	before := decides.calls.Load() + front.calls.Load()
	for range 100 {
		b, err := do(call)
		if err != nil || string(b) != "paid" {
			t.Fatalf("%q, %v", b, err)
		}
		b[0] = 'X' // the caller's own
	}
	other := call
	other.Fingerprint = engine.Fingerprint([]byte("pay 9"))
	if _, err := do(other); !errors.Is(err, ibid.ErrMismatch) {
		t.Errorf("another request under the key: %v, want ErrMismatch", err)
	}
	if n := decides.calls.Load() + front.calls.Load() - before; n != 0 || runs != 1 {
		t.Errorf("101 replays cost %d round trips and %d runs, want none", n, runs-1)
	}
	if c := s.Counts(); c.Memory != 101 {
		t.Errorf("counts: %+v", c)
	}
}

// A front answers the processes that have not seen the result.
func TestAFrontAnswersOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		decides, front := newStub(), newStub()
		p := processes(3, decides, front)
		k := digest("k")
		c := claim()
		c.Scope, c.Label = ibid.Digest{7}, []byte("order 17")
		if _, err := p[0].Begin(t.Context(), k, c); err != nil {
			t.Fatal(err)
		}
		if err := p[0].Complete(t.Context(), k, c.Token, []byte{}, forADay); err != nil {
			t.Fatal(err)
		}
		later()
		want := begin(t, p[0], k)
		decided, fronted := decides.calls.Load(), front.calls.Load()
		for _, s := range p[1:] {
			for range 10 {
				got := begin(t, s, k)
				if d := want.Window - got.Window; d < 0 || d > time.Minute || got.Result == nil {
					t.Errorf("the front answers %+v, want %+v", got, want)
				}
				got.Window = want.Window
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the front answers\n%+v, want\n%+v", got, want)
				}
			}
		}
		if d, f := decides.calls.Load()-decided, front.calls.Load()-fronted; d != 0 || f != 2 {
			t.Errorf("two new processes cost %d calls of the store that decides and %d of the front, want 0 and 2", d, f)
		}
	})
}

// A result that the store that decides has not acknowledged is nowhere.
func TestOnlyWhatWasAcknowledgedIsCopied(t *testing.T) {
	t.Parallel()
	decides, front := newStub(), newStub()
	p := processes(2, decides, front)
	k, c := digest("k"), claim()
	if _, err := p[0].Begin(t.Context(), k, c); err != nil {
		t.Fatal(err)
	}
	decides.fail(errAway)
	if err := p[0].Complete(t.Context(), k, c.Token, []byte("paid"), forADay); !errors.Is(err, errAway) {
		t.Fatalf("Complete: %v", err)
	}
	for _, s := range p {
		if r, err := s.Begin(t.Context(), k, claim()); !errors.Is(err, errAway) {
			t.Errorf("a result that was never recorded is answered: %+v, %v", r, err)
		}
	}
	decides.heal()
	for _, s := range p {
		if r := begin(t, s, k); r.State != ibid.InProgress {
			t.Errorf("the claim that stands is shown as %v", r.State)
		}
	}
}

// While the store that decides is away, what was copied is replayed, and
// nothing else runs.
func TestTheStoreThatDecidesIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		decides, front := newStub(), newStub()
		p := processes(2, decides, front)
		k := digest("k")
		completed(t, p[0], k, "paid", forADay)
		later()
		replays(t, "before", p[0], k, "paid")
		decides.fail(errAway)
		replays(t, "from memory", p[0], k, "paid")
		replays(t, "from the front", p[1], k, "paid")
		for _, s := range p {
			if r, err := s.Begin(t.Context(), digest("new"), claim()); !errors.Is(err, errAway) {
				t.Errorf("a new key: %+v, %v, want the store's error", r, err)
			}
			if r, err := s.Look(t.Context(), k); !errors.Is(err, errAway) {
				t.Errorf("Look: %+v, %v, want the store's error", r, err)
			}
		}
	})
}

// What is forgotten is forgotten in its process at once, and everywhere within
// ForgottenWithin, whether the front could be reached or not.
func TestForgotten(t *testing.T) {
	t.Parallel()
	for _, reached := range []bool{true, false} {
		t.Run(fmt.Sprintf("front reached %v", reached), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				decides, front := newStub(), newStub()
				p := processes(3, decides, front)
				k := digest("k")
				completed(t, p[0], k, "first", forADay)
				later()
				replays(t, "the process that forgets", p[0], k, "first")
				replays(t, "another process", p[1], k, "first")
				if !reached {
					front.fail(errAway)
				}
				forgotten := time.Now()
				forget(t, p[0], k)
				if !reached {
					front.heal()
				}
				r := completed(t, p[0], k, "second", forADay) // granted, so forgotten
				if r.Generation != 1 {
					t.Errorf("generation %d, want 1", r.Generation)
				}
				replays(t, "the process that forgot", p[0], k, "second")
				cold := "second"
				if !reached {
					cold = "first" // a copy that nobody could drop
				}
				replays(t, "a process that had not seen it", p[2], k, cold)
				time.Sleep(p[1].ForgottenWithin() - time.Since(forgotten))
				for i, s := range p {
					replays(t, fmt.Sprintf("process %d, in time", i), s, k, "second")
				}
			})
		})
	}
}

// A result that was read before a Forget is not copied after it: neither by
// the process that forgets, nor by another, into the front.
func TestAForgetBeatsAReadingUnderWay(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		look bool // the reading is a Look
		who  int  // the process that reads; 0 forgets
	}{
		{"the process that forgets begins", false, 0},
		{"the process that forgets looks", true, 0},
		{"another process begins", false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			decides, front := newStub(), newStub()
			p := processes(3, decides, front)
			k := digest("k")
			completed(t, decides, k, "first", forADay)
			decides.after = func(string) {
				decides.after = nil
				forget(t, p[0], k) // the answer is on its way
			}
			var r ibid.Record
			var err error
			if row.look {
				r, err = p[row.who].Look(t.Context(), k)
			} else {
				r, err = p[row.who].Begin(t.Context(), k, claim())
			}
			if err != nil || string(r.Result) != "first" {
				t.Fatalf("the reading: %+v, %v", r, err)
			}
			for _, i := range []int{0, 2} {
				if r := begin(t, p[i], k); r.State == ibid.Completed {
					t.Errorf("process %d replays what was forgotten", i)
				}
			}
		})
	}
}

// No copy outlives the window, to the nanosecond.
func TestCopiesEndWithTheWindow(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		retain time.Duration
		late   time.Duration // how late the front applies what fills it
	}{
		{"a window shorter than FrontTTL", 40 * time.Second, 0},
		{"a front that takes its time", 40 * time.Second, 4 * time.Second},
		{"a window shorter than a place in the front", 3 * time.Second, 0},
		{"a window that ends while the front takes its time", 8 * time.Second, 4 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				decides, front := newStub(), newStub()
				front.before = func(_ context.Context, verb string) error {
					if verb == "complete" {
						time.Sleep(row.late)
					}
					return nil
				}
				// Asked at the last moment, each answers from memory or from the front.
				p := []*layered.Store{
					layered.New(decides, nil),
					layered.New(decides, &layered.Options{Front: front, FrontTimeout: -1, MaxRecords: -1}),
				}
				k := digest("k")
				completed(t, decides, k, "paid", ibid.Keep{Retain: row.retain})
				ends := time.Now().Add(row.retain)
				for _, s := range p {
					replays(t, "at once", s, k, "paid")
				}
				time.Sleep(time.Until(ends) - 1)
				for _, s := range p {
					if r := begin(t, s, k); r.State != ibid.Completed || r.Window != 1 {
						t.Errorf("a nanosecond before: %v for %v", r.State, r.Window)
					}
				}
				time.Sleep(time.Nanosecond)
				for _, s := range p {
					if r := begin(t, s, k); r.State == ibid.Completed {
						t.Errorf("replayed %v after the window", time.Since(ends))
					}
				}
			})
		})
	}
}

// However late what fills the front arrives, no copy is older than FrontTTL.
func TestALateCopyIsNone(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{time.Second, 4 * time.Second, 6 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			decides, front := newStub(), newStub()
			front.before = func(_ context.Context, verb string) error {
				if verb == "complete" {
					time.Sleep(late) // the front stands still, with the command in its socket
				}
				return nil
			}
			s := layered.New(decides, &layered.Options{Front: front, FrontTimeout: -1, MaxRecords: -1})
			k := digest("k")
			completed(t, decides, k, "first", forADay)
			asked := time.Now()
			replays(t, "at first", s, k, "first")
			completed(t, decides, digest("unrelated"), "", forADay)
			r, _ := decides.Look(t.Context(), k)
			if err := decides.Forget(t.Context(), k, r.Token, time.Hour); err != nil { // by a process without the front
				t.Fatal(err)
			}
			time.Sleep(time.Until(asked.Add(s.ForgottenWithin())))
			if r := begin(t, s, k); r.State == ibid.Completed {
				t.Errorf("filled %v late, the front replays a copy that is %v old", late, time.Since(asked))
			}
		})
	}
}

// Memory holds no more than it may.
func TestBounds(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1000)
	for _, row := range []struct {
		name   string
		opts   layered.Options
		copies int // of ten results of a thousand bytes
	}{
		{"no bound that matters", layered.Options{}, 10},
		{"three records", layered.Options{MaxRecords: 3}, 3},
		{"five thousand bytes", layered.Options{MaxBytes: 5000}, 3},
		{"none fits", layered.Options{MaxBytes: 1000}, 0},
		{"results up to 999 bytes", layered.Options{MaxCopy: 999}, 0},
		{"results up to 1000 bytes", layered.Options{MaxCopy: 1000}, 10},
		{"no memory", layered.Options{MaxRecords: -1}, 0},
		{"no copies", layered.Options{FrontTTL: -1}, 0},
		{"no bounds", layered.Options{MaxBytes: -1, MaxCopy: -1}, 10},
	} {
		decides := newStub()
		s := layered.New(decides, &row.opts)
		for i := range 10 {
			k := digest(fmt.Sprint(i))
			completed(t, s, k, large, forADay)
			begin(t, s, k)
		}
		before := decides.calls.Load()
		for i := range 10 { // the last first: looking at one must not drop another
			replays(t, row.name, s, digest(fmt.Sprint(9-i)), large)
			if i == row.copies-1 {
				break
			}
		}
		asked := int(decides.calls.Load() - before)
		if row.copies > 0 && asked != 0 || row.copies == 0 && asked == 0 {
			t.Errorf("%s: %d of the last %d results were asked for again", row.name, asked, row.copies)
		}
		if row.copies < 10 {
			before := decides.calls.Load()
			replays(t, row.name, s, digest("0"), large)
			if decides.calls.Load() == before {
				t.Errorf("%s: the first of ten is still held", row.name)
			}
		}
	}
}

// The abilities are those of the store that decides.
func TestAbilities(t *testing.T) {
	t.Parallel()
	decides := memstore.New(nil)
	s := layered.New(decides, &layered.Options{Front: newStub()})
	if _, ok := ibid.As[ibid.Notifier](s); !ok {
		t.Error("nobody would be woken")
	}
	if _, ok := ibid.As[ibid.Sweeper](s); !ok {
		t.Error("nobody could sweep")
	}
	if _, ok := ibid.As[ibid.Checkpointer](s); !ok {
		t.Error("no steps could be kept")
	}
	if d, ok := ibid.As[*memstore.Store](s); !ok || d != decides {
		t.Error("the store that decides cannot be reached")
	}
	d, ok := ibid.As[ibid.Describer](s)
	if !ok {
		t.Fatal("it does not say what it survives")
	}
	if got, err := d.Describe(t.Context()); err != nil || got.Store != "memory" || got.Survives != 0 {
		t.Errorf("described as %+v, %v: it survives what the store that decides survives", got, err)
	}
	bare := layered.New(struct{ ibid.Store }{decides}, nil)
	if _, ok := ibid.As[ibid.Inspector](bare); ok {
		t.Error("it can forget, over a store that cannot")
	}
}

// Stores that share a front under different names do not see each other's
// copies, nor does the front's own use as a store.
func TestNamesKeepStoresApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		front := memstore.New(nil)
		k := digest("k")
		completed(t, front, k, "of the front itself", forADay)
		for _, name := range []string{"", "orders", "payments"} {
			s := layered.New(memstore.New(nil), &layered.Options{Front: front, Name: name, MaxRecords: -1})
			completed(t, s, k, "of "+name, forADay)
			later()
			for range 3 {
				replays(t, name, s, k, "of "+name)
			}
		}
	})
}

// Many processes over a front that comes and goes: each key runs once, and
// everyone gets its result.
func TestManyProcessesOverAFlakyFront(t *testing.T) {
	t.Parallel()
	decides, front := memstore.New(nil), newStub()
	var n atomic.Int64
	front.before = func(context.Context, string) error {
		if n.Add(1)%3 == 0 {
			return errAway
		}
		return nil
	}
	const keys = 50
	var runs [keys]atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		engine, err := ibid.New(t.Context(), layered.New(decides, &layered.Options{Front: front, FrontPause: 1, MaxRecords: 20}), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			wg.Go(func() {
				for i := range 10 * keys {
					k := i % keys
					got, _, err := engine.Do(t.Context(), ibid.Call{Key: ibid.Key{Scope: "s", ID: fmt.Sprint(k)}}, func(context.Context) ([]byte, error) {
						return fmt.Appendf(nil, "%d/%d", k, runs[k].Add(1)), nil
					})
					if err != nil && !errors.Is(err, ibid.ErrInProgress) || err == nil && string(got) != fmt.Sprintf("%d/1", k) {
						t.Errorf("key %d: %q, %v", k, got, err)
					}
				}
			})
		}
	}
	wg.Wait()
	for k := range runs {
		if runs[k].Load() != 1 {
			t.Errorf("key %d ran %d times", k, runs[k].Load())
		}
	}
}
