package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
)

// flood fills the server, with keys that are used more than records, until it
// refuses or has evicted.
func flood(t *testing.T, server *redistest.Server) {
	t.Helper()
	limit := server.Number("memory", "used_memory") + 2<<20
	server.Do("CONFIG", "SET", "maxmemory", fmt.Sprint(limit))
	server.Do("EVAL", `for i = 1, 100000 do
		local ok = redis.pcall('SET', KEYS[1] .. i, string.rep('x', 1000), 'PX', 100000000)
		if type(ok) == 'table' and ok.err then return i end
		for _ = 1, 10 do redis.call('GET', KEYS[1] .. i) end
		if i > 10000 then return i end
	end`, "1", "flood:")
}

// A full server accepts no new key, and everything of the keys it holds.
func TestFullServer(t *testing.T) {
	each(t, []string{"--maxmemory-policy", "noeviction"}, func(t *testing.T, lib library, server *redistest.Server) {
		s := lib.open(t, "", server.Addr)
		done, doneClaim := newKey(), newClaim()
		mustOwn(t, s, done, doneClaim)
		complete(t, s, done, doneClaim, "kept")
		running, runningClaim := newKey(), newClaim()
		mustOwn(t, s, running, runningClaim)
		lapsed, lapsedClaim := newKey(), newClaim()
		mustOwn(t, s, lapsed, lapsedClaim)

		flood(t, server)
		_, err := s.Begin(t.Context(), newKey(), newClaim())
		if !errors.Is(err, ibid.ErrFull) || !strings.Contains(err.Error(), "OOM") {
			t.Fatalf("a new key: %v, want ErrFull with the server's reason", err)
		}
		if r := begin(t, s, done, newClaim()); string(r.Result) != "kept" {
			t.Errorf("a replay: %+v", r)
		}
		if r := begin(t, s, running, newTaker()); r.State != ibid.InProgress {
			t.Errorf("a conflict: %+v", r)
		}
		if err := s.Extend(t.Context(), running, runningClaim.Token, time.Hour); err != nil {
			t.Errorf("a renewal: %v", err)
		}
		if err := s.Checkpoint(t.Context(), running, runningClaim.Token, []byte(strings.Repeat("s", 5000))); err != nil {
			t.Errorf("steps: %v", err)
		}
		result := strings.Repeat("r", 50_000) // more than Begin reserved
		if err := s.Complete(t.Context(), running, runningClaim.Token, []byte(result), ibid.Keep{Retain: long}); err != nil {
			t.Errorf("a result: %v", err)
		}
		if r := begin(t, s, running, newClaim()); string(r.Result) != result {
			t.Errorf("the result was not kept: %v", r.State)
		}
		if err := s.Extend(t.Context(), lapsed, lapsedClaim.Token, 0); err != nil {
			t.Errorf("giving up: %v", err)
		}
		mustOwn(t, s, lapsed, newTaker())
		if r, err := s.Look(t.Context(), newKey()); err != nil || r.State != ibid.Absent {
			t.Errorf("a look: %+v, %v", r, err)
		}
	})
}

// Every other policy drops records, and Describe has said so before.
func TestEvictionIsDescribed(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, append([]string{"--maxmemory-policy", policy, "--lfu-log-factor", "0"}, durable...)...)
			s := libraries[0].open(t, "", server.Addr)
			d, err := s.Describe(t.Context())
			if err != nil || d.Survives != 0 {
				t.Errorf("survives %v, %v, want nothing", d.Survives, err)
			}
			if advice := d.Advice[ibid.ProcessKill]; !strings.Contains(advice, "maxmemory-policy") || !strings.Contains(advice, policy) {
				t.Errorf("advice does not name the setting: %q", advice)
			}
			_, err = ibid.New(t.Context(), s, &ibid.Options{Require: ibid.ProcessKill})
			if !errors.Is(err, ibid.ErrInvalid) || !strings.Contains(err.Error(), "maxmemory-policy") {
				t.Errorf("an engine that requires more: %v", err)
			}
			const records = 300
			keys := make([]ibid.Digest, records)
			for i := range keys {
				c := newClaim()
				c.Lease, c.Window = time.Minute, time.Minute // sooner over than the flood
				keys[i] = newKey()
				mustOwn(t, s, keys[i], c)
				if err := s.Complete(t.Context(), keys[i], c.Token, []byte("receipt"), ibid.Keep{Retain: time.Minute}); err != nil {
					t.Fatal(err)
				}
			}
			flood(t, server)
			lost := 0
			for _, k := range keys {
				if server.Do("EXISTS", rawKey("ibid:", k)) == "0" {
					lost++
				}
			}
			t.Logf("%s: %d of %d results evicted", policy, lost, records)
			if lost == 0 {
				t.Errorf("no result was evicted: what Describe says was not put to the test")
			}
		})
	}
}
