package redis_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/internal/outside"
)

// fakeTime starts a server whose clock can be set.
func fakeTime(t *testing.T) (server *redistest.Server, set func(offset string)) {
	t.Helper()
	redistest.Need(t, "faketime")
	libs, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	// Before libfaketime knows the time it allocates, and jemalloc asks for the
	// time when it first allocates: the C library's own malloc goes before it.
	libc, _ := filepath.Glob("/lib/*/libc.so.6")
	if len(libs) == 0 || len(libc) == 0 {
		outside.Need(t, outside.Missing{What: "libfaketime.so.1", Package: "faketime"})
	}
	file := filepath.Join(t.TempDir(), "time")
	set = func(offset string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(offset+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	set("+0")
	server = redistest.StartEnv(t, []string{"LD_PRELOAD=" + libs[0] + " " + libc[0], "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1"})
	was := server.Do("TIME")
	set("+10000")
	if is := server.Do("TIME"); is[:6] == was[:6] {
		t.Fatalf("the server's clock does not obey: %q, then %q", was, is)
	}
	set("+0")
	return server, set
}

// Somebody sets the server's clock. Leases and windows end early or late; no key
// is ever completed by two.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			server, set := fakeTime(t)
			s := lib.open(t, "", server.Addr)
			held := func(window time.Duration) (ibid.Digest, ibid.Claim) {
				k, c := newKey(), newClaim()
				c.Lease, c.Window = 30*time.Second, window
				mustOwn(t, s, k, c)
				return k, c
			}
			refusedKey, refused := held(48 * time.Hour)
			takenKey, taken := held(48 * time.Hour)
			overKey, over := held(time.Hour)
			doneKey, done := held(48 * time.Hour)
			if err := s.Complete(t.Context(), doneKey, done.Token, []byte("kept"), ibid.Keep{Retain: time.Hour, Remember: 48 * time.Hour}); err != nil {
				t.Fatal(err)
			}

			set("+25h")
			if r := begin(t, s, refusedKey, newClaim()); r.State != ibid.Lapsed {
				t.Errorf("25 h ahead, a claim of 30 s is %v, want lapsed, and not taken over", r.State)
			}
			if err := s.Complete(t.Context(), refusedKey, refused.Token, []byte("late"), ibid.Keep{Retain: long}); err != nil {
				t.Errorf("its owner completes: %v", err)
			}
			taker := newTaker()
			if r := mustOwn(t, s, takenKey, taker); r.Vanished != 1 {
				t.Errorf("taken over: %+v", r)
			}
			if err := s.Complete(t.Context(), takenKey, taken.Token, []byte("zombie"), ibid.Keep{Retain: long}); !errors.Is(err, ibid.ErrClaimLost) {
				t.Errorf("its former owner completes: %v, want ErrClaimLost", err)
			}
			complete(t, s, takenKey, taker, "second")
			if r := begin(t, s, doneKey, newClaim()); r.State != ibid.Expired {
				t.Errorf("25 h ahead, a result kept for an hour is %v, want expired", r.State)
			}
			again := newClaim()
			mustOwn(t, s, overKey, again) // its window is over: a new operation
			if err := s.Complete(t.Context(), overKey, over.Token, []byte("zombie"), ibid.Keep{Retain: long}); !errors.Is(err, ibid.ErrClaimLost) {
				t.Errorf("the owner of the window before completes: %v, want ErrClaimLost", err)
			}

			back, mine := held(time.Hour)
			set("+24h")
			if r := begin(t, s, back, newTaker()); r.State != ibid.InProgress || r.Lease < 30*time.Second {
				t.Errorf("an hour back, the claim is %+v, want to hold for longer", r)
			}
			complete(t, s, back, mine, "mine")
			for k, want := range map[ibid.Digest]string{refusedKey: "late", takenKey: "second", back: "mine"} {
				if r := begin(t, s, k, newTaker()); string(r.Result) != want {
					t.Errorf("%+v, want %q", r, want)
				}
			}
		})
	}
}
