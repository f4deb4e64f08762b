package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/sqlstore"
)

// stored returns the bytes of the record at k.
func (f *fixture) stored(k ibid.Digest) (b []byte) {
	f.t.Helper()
	if err := f.raw.QueryRow("SELECT record FROM ibid_record WHERE key = ?", k[:]).Scan(&b); err != nil {
		f.t.Fatal(err)
	}
	return b
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	f.raw.SetMaxOpenConns(1)
	f.exec("PRAGMA synchronous = OFF") // only the flips are written so
	steps := func(k ibid.Digest, c ibid.Claim) {
		if err := f.Checkpoint(t.Context(), k, c.Token, []byte("half")); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		name string
		make func() (ibid.Digest, ibid.Claim)
	}{
		{"completed", func() (ibid.Digest, ibid.Claim) { return f.completed("answer") }},
		{"in progress", func() (ibid.Digest, ibid.Claim) { k, c := f.owned(); steps(k, c); return k, c }},
		{"released", func() (ibid.Digest, ibid.Claim) {
			k, c := f.owned()
			if err := f.Release(t.Context(), k, c.Token); err != nil {
				t.Fatal(err)
			}
			return k, c
		}},
	} {
		k, c := row.make()
		good := f.stored(k)
		for i := range len(good) * 8 {
			bad := bytes.Clone(good)
			bad[i/8] ^= 1 << (i % 8)
			f.exec("UPDATE ibid_record SET record = ? WHERE key = ?", bad, k[:])
			taker := newClaim()
			taker.MaxTakeovers = -1
			if r, err := f.Begin(t.Context(), k, taker); !errors.Is(err, ibid.ErrDamaged) {
				t.Fatalf("%s, bit %d flipped: Begin: %v, %v, want ErrDamaged", row.name, i, r.State, err)
			}
			if err := f.complete(k, c, "another"); !errors.Is(err, ibid.ErrDamaged) {
				t.Fatalf("%s, bit %d flipped: Complete: %v, want ErrDamaged", row.name, i, err)
			}
		}
		for n := range len(good) {
			f.exec("UPDATE ibid_record SET record = ? WHERE key = ?", append([]byte{}, good[:n]...), k[:])
			if r, err := f.Look(t.Context(), k); !errors.Is(err, ibid.ErrDamaged) {
				t.Fatalf("%s, cut to %d bytes: %v, %v, want ErrDamaged", row.name, n, r.State, err)
			}
		}
		f.exec("UPDATE ibid_record SET record = ? WHERE key = ?", good, k[:])
		if _, err := f.Look(t.Context(), k); err != nil {
			t.Errorf("%s, repaired: %v", row.name, err)
		}
	}
}

// The columns beside the record decide nothing: one that is wrong neither hides
// a record nor lets it be deleted.
func TestAWrongColumnIsPutRight(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	held, c := f.owned()
	done, _ := f.completed("answer")
	f.exec("UPDATE ibid_record SET gone = 1, scope = x'00'")
	if n, err := f.Sweep(t.Context(), 100); n != 0 || err != nil {
		t.Errorf("swept %d, %v, want none: they are kept", n, err)
	}
	f.state(done, ibid.Completed)
	if err := f.complete(held, c, "answer"); err != nil {
		t.Error(err)
	}
	var wrong int
	if err := f.raw.QueryRow("SELECT count(*) FROM ibid_record WHERE gone <= 1").Scan(&wrong); err != nil || wrong != 0 {
		t.Errorf("%d columns are still wrong, %v", wrong, err)
	}
}

func TestADamagedRecordStaysUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	k, c := f.completed("answer")
	before := f.state(k, ibid.Completed)
	f.exec("UPDATE ibid_record SET record = x'0102', gone = 1 WHERE key = ?", k[:])
	for range 2 {
		if n, err := f.Sweep(t.Context(), 100); n != 0 || err != nil {
			t.Errorf("swept %d, %v, want none: nobody knows what it was", n, err)
		}
	}
	if _, err := f.Look(t.Context(), k); !errors.Is(err, ibid.ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
	if err := f.Forget(t.Context(), k, c.Token, long); !errors.Is(err, ibid.ErrDamaged) {
		t.Errorf("forgotten with a token that nobody can compare: %v, want ErrDamaged", err)
	}
	if err := f.Forget(t.Context(), k, ibid.Token{}, long); err != nil {
		t.Fatal(err)
	}
	r := f.state(k, ibid.Released)
	if r.Generation <= before.Generation+1e6 {
		t.Errorf("generation %d could have been counted before: derived keys would be used again", r.Generation)
	}
	next := newClaim()
	f.begin(k, next)
	if r := f.state(k, ibid.InProgress); r.Fence <= before.Fence {
		t.Errorf("fence %d, want more than %d", r.Fence, before.Fence)
	}
	if err := f.Forget(t.Context(), k, ibid.Token{}, long); !errors.Is(err, ibid.ErrClaimLost) {
		t.Errorf("a sound record forgotten without its token: %v, want ErrClaimLost", err)
	}
}

// A record that was claimed anew after the sweep found it over stays.
func TestTheSweepSparesWhatIsClaimedMeanwhile(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	other, err := sqlstore.OpenSQLite(t.Context(), f.raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	over := func() ibid.Digest {
		k, c := newKey(), newClaim()
		c.Lease, c.Window = 1, 1
		f.begin(k, c)
		return k
	}
	claimed, left := over(), over()
	time.Sleep(time.Microsecond) // both are over, by the clock that judges them
	again := newClaim()
	once := false
	f.hook.set(func(q string, _ []driverValue) error {
		if q == "BEGIN IMMEDIATE" && !once { // the sweep has found both
			once = true
			if r, err := other.Begin(t.Context(), claimed, again); err != nil || !r.OwnedBy(again.Token) {
				return fmt.Errorf("claim: %v, %w", r.State, err)
			}
		}
		return nil
	}, nil)
	if n, err := f.Sweep(t.Context(), 100); n != 1 || err != nil {
		t.Errorf("swept %d, %v, want the one that was left", n, err)
	}
	if r := f.state(claimed, ibid.InProgress); !r.OwnedBy(again.Token) {
		t.Error("the new claim is gone")
	}
	f.state(left, ibid.Absent)
}

func TestASweepIsBounded(t *testing.T) {
	t.Parallel()
	f := open(t, &sqlstore.SQLiteOptions{Synchronous: sqlstore.SyncNormal})
	const n = 300
	for range n {
		c := newClaim()
		c.Lease, c.Window = 1, 1
		f.begin(newKey(), c)
	}
	time.Sleep(time.Microsecond)
	_, commits := f.statements(func() {
		for _, row := range []struct{ limit, want int }{{10, 10}, {0, 0}, {1000, n - 10}, {1000, 0}} {
			if got, err := f.Sweep(t.Context(), row.limit); got != row.want || err != nil {
				t.Errorf("Sweep(%d): %d, %v, want %d", row.limit, got, err, row.want)
			}
		}
	})
	if want := 1 + 3; commits != want {
		t.Errorf("%d transactions, want %d: writers wait no longer than for one batch", commits, want)
	}
}
