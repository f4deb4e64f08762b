package redis_test

import (
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/redisstore"
)

const times = 50

// run is one row at work.
type run struct {
	*testing.T
	s      *redisstore.Store
	keys   [times]ibid.Digest
	claims [times]ibid.Claim
}

func (r *run) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *run) state(i int, c ibid.Claim, want ibid.State) {
	r.Helper()
	if got := begin(r, r.s, r.keys[i], c); got.State != want {
		r.Fatalf("%v, want %v", got.State, want)
	}
}

// A verb's cost is what the server counts: commands that ran, and reads from
// its sockets. Commands that scripts run are counted too, and known.
func TestCommandsSent(t *testing.T) {
	fresh := func(r *run) {
		for i := range r.keys {
			r.keys[i], r.claims[i] = newKey(), newClaim()
		}
	}
	claimed := func(r *run) {
		fresh(r)
		for i := range r.keys {
			mustOwn(r, r.s, r.keys[i], r.claims[i])
		}
	}
	completed := func(r *run) {
		claimed(r)
		for i := range r.keys {
			complete(r, r.s, r.keys[i], r.claims[i], "done")
		}
	}
	lapsed := func(r *run) {
		claimed(r)
		for i := range r.keys {
			r.check(r.s.Extend(r.Context(), r.keys[i], r.claims[i].Token, 0))
		}
	}
	released := func(r *run) {
		claimed(r)
		for i := range r.keys {
			r.check(r.s.Release(r.Context(), r.keys[i], r.claims[i].Token))
		}
	}
	rows := []struct {
		name    string
		prepare func(*run)
		call    func(r *run, i int)
		sent    int // commands that the client sends
		sets    int // SET, by the client or by scripts
		scripts int
	}{
		{"a first run sends two", fresh, func(r *run, i int) {
			mustOwn(r, r.s, r.keys[i], r.claims[i])
			complete(r, r.s, r.keys[i], r.claims[i], "done")
		}, 2, 2, 1},
		{"a replay sends one, and runs no script", completed, func(r *run, i int) {
			r.state(i, newClaim(), ibid.Completed)
		}, 1, 1, 0},
		{"a conflict sends two", claimed, func(r *run, i int) {
			r.state(i, newClaim(), ibid.InProgress)
		}, 2, 1, 1},
		{"a conflict of one who may take over sends two", claimed, func(r *run, i int) {
			r.state(i, newTaker(), ibid.InProgress)
		}, 2, 1, 1},
		{"a mismatch sends two", claimed, func(r *run, i int) {
			c := newTaker()
			c.Fingerprint[0]++
			r.state(i, c, ibid.InProgress)
		}, 2, 1, 1},
		{"an unknown outcome sends two", lapsed, func(r *run, i int) {
			r.state(i, newClaim(), ibid.Lapsed)
		}, 2, 1, 1},
		{"a takeover sends two", lapsed, func(r *run, i int) {
			mustOwn(r, r.s, r.keys[i], newTaker())
		}, 2, 2, 1},
		{"a claim of a released key sends two", released, func(r *run, i int) {
			mustOwn(r, r.s, r.keys[i], newClaim())
		}, 2, 2, 1},
		{"a claim repeated sends two", claimed, func(r *run, i int) {
			mustOwn(r, r.s, r.keys[i], r.claims[i])
		}, 2, 2, 1},
		{"a look sends one", claimed, func(r *run, i int) {
			_, err := r.s.Look(r.Context(), r.keys[i])
			r.check(err)
		}, 1, 0, 1},
		{"a renewal sends one", claimed, func(r *run, i int) {
			r.check(r.s.Extend(r.Context(), r.keys[i], r.claims[i].Token, time.Hour))
		}, 1, 0, 1},
		{"a release sends one", claimed, func(r *run, i int) {
			r.check(r.s.Release(r.Context(), r.keys[i], r.claims[i].Token))
		}, 1, 1, 1},
	}
	each(t, nil, func(t *testing.T, lib library, server *redistest.Server) {
		s := lib.open(t, "", server.Addr)
		counts := server.Observer()
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				r := &run{T: t, s: s}
				row.prepare(r)
				row.call(r, 0) // the server knows the script from now on, and this process the time
				row.prepare(r)
				was := counts()
				for i := range times {
					row.call(r, i)
				}
				is := counts()
				// A connection that pings, or a reading torn in two, may add a few.
				if reads := is.Reads - was.Reads; reads < row.sent*times || reads > row.sent*times+5 {
					t.Errorf("the server read %d times for %d calls, want %d each", reads, times, row.sent)
				}
				sets := is.Calls["set"] - was.Calls["set"]
				scripts := is.Calls["evalsha"] + is.Calls["eval"] - was.Calls["evalsha"] - was.Calls["eval"]
				if sets != row.sets*times || scripts != row.scripts*times {
					t.Errorf("%d SET and %d scripts for %d calls, want %d and %d each", sets, scripts, times, row.sets, row.scripts)
				}
			})
		}
	})
}
