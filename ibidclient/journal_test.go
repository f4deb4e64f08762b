package ibidclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidclient"
	"github.com/ibid-go/ibid/memstore"
)

// journals are the journals that must behave alike: each function returns the
// same journal as a new process would see it.
func journals(t *testing.T) map[string]func() ibidclient.Journal {
	dir := filepath.Join(t.TempDir(), "journal")
	var store memstore.Store
	return map[string]func() ibidclient.Journal{
		"file": func() ibidclient.Journal {
			j, err := ibidclient.NewFileJournal(dir)
			if err != nil {
				t.Fatal(err)
			}
			return j
		},
		"store": func() ibidclient.Journal {
			j, err := ibidclient.NewStoreJournal(&store, "shop", nil)
			if err != nil {
				t.Fatal(err)
			}
			return j
		},
	}
}

func each(t *testing.T, f func(t *testing.T, open func() ibidclient.Journal)) {
	t.Parallel()
	for _, name := range []string{"file", "store"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, journals(t)[name]) })
		})
	}
}

func pending(t *testing.T, j ibidclient.Journal) []ibidclient.Entry {
	t.Helper()
	p, err := j.Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestJournal: a process that dies between sending and the answer leaves its
// key behind; the next process asks under it, and only then it is forgotten (hazard 59).
func TestJournal(t *testing.T) {
	each(t, func(t *testing.T, open func() ibidclient.Journal) {
		// The first process: the request is on its way when it dies.
		died := errors.New("killed")
		var keptWhenSent []ibidclient.Entry
		base := script(step{})
		base.extra = func(_ int, req *http.Request) *step {
			keptWhenSent = pending(t, open())
			return &step{err: died}
		}
		c := client(base, &ibidclient.Options{Journal: open(), Attempts: 1})
		ctx := ibidclient.WithLabel(t.Context(), "order 17")
		first := fail(t, c, post(t, ctx, "pay 5"))
		if len(keptWhenSent) != 1 || keptWhenSent[0].Key != first.Key {
			t.Fatalf("when the request was sent, the journal had %+v", keptWhenSent)
		}

		time.Sleep(time.Minute)

		// The second process.
		j := open()
		left := pending(t, j)
		if len(left) != 1 {
			t.Fatalf("pending: %+v, want one entry", left)
		}
		e := left[0]
		if e.Key != first.Key || e.Label != "order 17" || e.Method != "POST" || e.URL != "http://shop.test/orders" || e.Age != time.Minute {
			t.Errorf("pending: %+v", e)
		}
		base = script(step{status: 503}, step{status: 201, body: "done"})
		c = client(base, &ibidclient.Options{Journal: j})

		// Another request under the key is refused before it is sent.
		resp, err := c.Do(post(t, ibidclient.WithKey(t.Context(), e.Key), "pay 6"))
		if f := failure(t, resp, err); f.Outcome != ibidclient.Refused || !errors.Is(f, ibid.ErrMismatch) || len(base.attempts()) != 0 {
			t.Errorf("another request: %v after %d attempts", f, len(base.attempts()))
		}

		resp, err = c.Do(post(t, ibidclient.WithKey(t.Context(), e.Key), "pay 5"))
		if err != nil {
			t.Fatal(err)
		}
		if p := pending(t, j); len(p) != 1 {
			t.Errorf("before the answer is read: %+v, want the entry", p)
		}
		if got := read(t, resp, err); got != "done" || ibidclient.KeyOf(resp) != first.Key {
			t.Errorf("%q under %s", got, ibidclient.KeyOf(resp))
		}
		if p := pending(t, j); len(p) != 0 {
			t.Errorf("after the answer: %+v", p)
		}
		if err := j.Done(t.Context(), e.Key); err != nil {
			t.Errorf("done twice: %v", err)
		}
	})
}

// TestJournalKeeps: what is pending after which end.
func TestJournalKeeps(t *testing.T) {
	each(t, func(t *testing.T, open func() ibidclient.Journal) {
		for _, c := range []struct {
			why  string
			step []step
			left int
		}{
			{"a success is an answer", []step{{status: 200}}, 0},
			{"a refusal is an answer", []step{{status: 422}}, 0},
			{"completed, and the answer gone: nothing to ask for", []step{problem(410, "key-expired", "")}, 0},
			{"unknown is none", []step{problem(409, "outcome-unknown", "")}, 1},
			{"nor is an exhausted 503", []step{{status: 503}}, 1},
			{"nor a rate limit", []step{{status: 429}}, 1},
			{"nor an answer that was lost", []step{{err: errCut}}, 1},
			{"nor a server that is not there", []step{{err: errCut, unsent: true}}, 1},
			{"nor a refusal that says nothing of an earlier attempt", []step{{err: errCut}, {status: 401}}, 1},
		} {
			j := open()
			c2 := client(script(c.step...), &ibidclient.Options{Journal: j})
			resp, err := c2.Do(post(t, t.Context(), "{}"))
			if err == nil {
				read(t, resp, err)
			}
			left := pending(t, j)
			if len(left) != c.left {
				t.Errorf("%s: %d pending, want %d", c.why, len(left), c.left)
			}
			for _, e := range left {
				if err := j.Done(t.Context(), e.Key); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestJournalWindow: a restart does not begin the window anew, and what the
// journal knows keeps the outcome open.
func TestJournalWindow(t *testing.T) {
	each(t, func(t *testing.T, open func() ibidclient.Journal) {
		opts := func() *ibidclient.Options {
			return &ibidclient.Options{Journal: open(), Window: time.Hour, Attempts: 1}
		}
		key := fail(t, client(script(step{err: errCut}), opts()), post(t, t.Context(), "{}")).Key

		time.Sleep(30 * time.Minute)
		ctx := ibidclient.WithKey(t.Context(), key)
		if e := fail(t, client(script(step{err: errCut, unsent: true}), opts()), post(t, ctx, "{}")); e.Outcome != ibidclient.Unknown || e.Window > 30*time.Minute {
			t.Errorf("an earlier process may have been heard: %v, window %v", e, e.Window)
		}

		time.Sleep(30 * time.Minute)
		base := script(step{status: 200})
		ctx = ibidclient.WithKey(t.Context(), key)
		resp, err := client(base, opts()).Do(post(t, ctx, "{}"))
		if e := failure(t, resp, err); !errors.Is(e, ibidclient.ErrWindowOver) || e.Outcome != ibidclient.Unknown || len(base.attempts()) != 0 {
			t.Errorf("%v after %d attempts, want none", e, len(base.attempts()))
		}
	})
}

// TestJournalOrder: the oldest entry first, ages apart, several keys at once.
func TestJournalOrder(t *testing.T) {
	each(t, func(t *testing.T, open func() ibidclient.Journal) {
		j := open()
		for _, k := range []string{"c", "a", "b", "../../etc/passwd", "sp ace"} {
			if _, earlier, err := j.Keep(t.Context(), ibidclient.Entry{Key: k, Method: "POST"}); err != nil || earlier {
				t.Fatalf("%s: earlier %v, %v", k, earlier, err)
			}
			time.Sleep(time.Second)
		}
		if stands, earlier, err := j.Keep(t.Context(), ibidclient.Entry{Key: "a", Method: "PUT"}); err != nil || !earlier || stands.Method != "POST" || stands.Age != 4*time.Second {
			t.Errorf("kept again: %+v, %v, %v", stands, earlier, err)
		}
		var order []string
		for _, e := range pending(t, j) {
			order = append(order, e.Key)
		}
		if got := strings.Join(order, ","); got != "c,a,b,../../etc/passwd,sp ace" {
			t.Errorf("order %s", got)
		}
		// A key that was answered is kept anew: it is sent again.
		if err := j.Done(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, earlier, err := j.Keep(t.Context(), ibidclient.Entry{Key: "a", Method: "POST"}); err != nil || earlier {
			t.Errorf("kept after done: earlier %v, %v", earlier, err)
		}
	})
}

// TestJournalRace: of many who keep one key at once, one is first.
func TestJournalRace(t *testing.T) {
	t.Parallel()
	for name, open := range journals(t) {
		j := open()
		var mu sync.Mutex
		first := 0
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, earlier, err := j.Keep(t.Context(), ibidclient.Entry{Key: "k", Method: "POST"})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if !earlier {
					first++
				}
			})
		}
		wg.Wait()
		if first != 1 || len(pending(t, j)) != 1 {
			t.Errorf("%s: %d were first", name, first)
		}
	}
}

// brokenJournal cannot keep, or cannot forget.
type brokenJournal struct{ keep, done error }

func (b brokenJournal) Keep(_ context.Context, e ibidclient.Entry) (ibidclient.Entry, bool, error) {
	return e, false, b.keep
}
func (b brokenJournal) Done(context.Context, string) error                  { return b.done }
func (b brokenJournal) Pending(context.Context) ([]ibidclient.Entry, error) { return nil, nil }

// TestJournalFails: what cannot be kept is not sent; what cannot be forgotten
// takes nobody's answer away.
func TestJournalFails(t *testing.T) {
	t.Parallel()
	base := script(step{status: 200, body: "done"})
	c := client(base, &ibidclient.Options{Journal: brokenJournal{keep: io.ErrShortWrite}})
	resp, err := c.Do(post(t, t.Context(), "{}"))
	if e := failure(t, resp, err); e.Outcome != ibidclient.NotExecuted || !errors.Is(e, io.ErrShortWrite) || len(base.attempts()) != 0 {
		t.Errorf("%v after %d attempts", e, len(base.attempts()))
	}
	var told int
	c = client(base, &ibidclient.Options{Journal: brokenJournal{done: io.ErrShortWrite}, Observe: []func(context.Context, ibidclient.Event){func(_ context.Context, e ibidclient.Event) {
		if e.Kind == ibidclient.EventJournal && errors.Is(e.Err, io.ErrShortWrite) {
			told++
		}
	}}})
	resp, err = c.Do(post(t, t.Context(), "{}"))
	if got := read(t, resp, err); got != "done" || told != 1 {
		t.Errorf("%q, told %d times", got, told)
	}
}

// TestFileJournalDamage: an entry that was changed is not taken for a key, and
// does not hide the others.
func TestFileJournalDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := ibidclient.NewFileJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b"} {
		if _, _, err := j.Keep(t.Context(), ibidclient.Entry{Key: k, Method: "POST", URL: "http://shop.test/"}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.entry"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		changed := append([]byte(nil), whole...)
		changed[i] ^= 4
		if err := os.WriteFile(files[0], changed, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := j.Pending(t.Context())
		if !errors.Is(err, ibid.ErrDamaged) || !strings.Contains(err.Error(), files[0]) || len(p) != 1 {
			t.Fatalf("byte %d changed: %+v, %v", i, p, err)
		}
		for _, k := range []string{"a", "b"} {
			if _, earlier, err := j.Keep(t.Context(), ibidclient.Entry{Key: k}); !earlier && err == nil {
				t.Fatalf("byte %d changed: the key was kept anew", i)
			}
		}
	}
	if err := os.WriteFile(files[0], whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Pending(t.Context()); !errors.Is(err, ibid.ErrDamaged) {
		t.Errorf("half a file: %v", err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestStoreJournalShared: journals and an engine share a store without seeing
// each other's records.
func TestStoreJournalShared(t *testing.T) {
	t.Parallel()
	var store memstore.Store
	engine, err := ibid.New(t.Context(), &store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := engine.Do(t.Context(), ibid.Call{Key: ibid.Key{Scope: "s", ID: "k"}}, func(context.Context) ([]byte, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	var js []*ibidclient.StoreJournal
	for _, name := range []string{"a", "b"} {
		j, err := ibidclient.NewStoreJournal(&store, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		js = append(js, j)
		if _, earlier, err := j.Keep(t.Context(), ibidclient.Entry{Key: "k", Label: name}); err != nil || earlier {
			t.Errorf("%s: %v, %v", name, earlier, err)
		}
	}
	for i, name := range []string{"a", "b"} {
		if p := pending(t, js[i]); len(p) != 1 || p[0].Label != name {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, err := ibidclient.NewStoreJournal(&store, "", nil); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("no name: %v", err)
	}
	if _, err := ibidclient.NewFileJournal(""); !errors.Is(err, ibid.ErrInvalid) {
		t.Errorf("no folder: %v", err)
	}
}

// TestManyPending: the store journal lists more than one batch.
func TestManyPending(t *testing.T) {
	t.Parallel()
	var store memstore.Store
	j, err := ibidclient.NewStoreJournal(&store, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1234 {
		if _, _, err := j.Keep(t.Context(), ibidclient.Entry{Key: ibidclient.KeyFor("order", string(rune('a'+i%26)), ibidclient.UUIDv7())}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(pending(t, j)); n != 1234 {
		t.Errorf("%d pending, want 1234", n)
	}
}
