package redis_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
	"github.com/ibid-go/ibid/redisstore"
)

// What Describe says of a setting, against what a server with that setting
// still has after kill -9.
func TestKilledServer(t *testing.T) {
	rows := []struct {
		name     string
		args     []string
		survives ibid.Survival
		loses    bool // the loss is certain
		advice   string
	}{
		{"nothing on disk", nil, ibid.ProcessKill, true, "appendonly yes"},
		{"snapshots", []string{"--save", "3600 1"}, ibid.ProcessKill, true, "snapshots"},
		{"appendfsync everysec", []string{"--appendonly", "yes", "--appendfsync", "everysec"}, ibid.ProcessKill, false, "appendfsync is everysec"},
		{"appendfsync no", []string{"--appendonly", "yes", "--appendfsync", "no"}, ibid.ProcessKill | ibid.ServerKill, false, "appendfsync is no"},
		{"appendfsync always", durable, ibid.ProcessKill | ibid.ServerKill | ibid.PowerLoss, false, ""},
		{"always, but not during rewrites", append([]string{"--no-appendfsync-on-rewrite", "yes"}, durable...), ibid.ProcessKill | ibid.ServerKill, false, "no-appendfsync-on-rewrite"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			each(t, row.args, func(t *testing.T, lib library, server *redistest.Server) {
				s := lib.open(t, "", server.Addr)
				d, err := s.Describe(t.Context())
				if err != nil || d.Survives != row.survives {
					t.Errorf("survives %v, %v, want %v", d.Survives, err, row.survives)
				}
				if !strings.HasPrefix(d.Store, "Redis ") && !strings.HasPrefix(d.Store, "Valkey ") {
					t.Errorf("store is %q", d.Store)
				}
				if !strings.Contains(d.Advice[ibid.PowerLoss], row.advice) {
					t.Errorf("advice %q does not name %q", d.Advice[ibid.PowerLoss], row.advice)
				}
				const records = 200
				keys := make([]ibid.Digest, records)
				for i := range keys {
					c := newClaim()
					keys[i] = newKey()
					mustOwn(t, s, keys[i], c)
					complete(t, s, keys[i], c, "receipt")
				}
				server.Kill()
				server.Restart()
				lost := 0
				for _, k := range keys {
					var r ibid.Record
					eventually(t, "answer", func() (ok bool) {
						r, err = s.Look(t.Context(), k)
						return err == nil
					})
					if string(r.Result) != "receipt" {
						lost++
					}
				}
				t.Logf("%d of %d results lost", lost, records)
				switch {
				case row.survives&ibid.ServerKill != 0 && lost > 0:
					t.Errorf("lost %d of %d acknowledged results", lost, records)
				case row.loses && lost == 0:
					t.Error("nothing was lost: what Describe says was not put to the test")
				}
			})
		})
	}
}

// A client that may not ask is told the worst.
func TestForbiddenSettings(t *testing.T) {
	each(t, durable, func(t *testing.T, lib library, server *redistest.Server) {
		s := lib.open(t, "", server.Addr)
		server.Do("ACL", "SETUSER", "default", "-config")
		d, err := s.Describe(t.Context())
		if err != nil || d.Survives != ibid.ProcessKill || !strings.Contains(d.Advice[ibid.ServerKill], "CONFIG") {
			t.Errorf("without CONFIG: %v, %v, %v", d.Survives, d.Advice, err)
		}
		server.Do("ACL", "SETUSER", "default", "-info")
		d, err = s.Describe(t.Context())
		if err != nil || d.Survives != 0 || !strings.Contains(d.Advice[ibid.ProcessKill], "INFO") {
			t.Errorf("without INFO: %v, %v, %v", d.Survives, d.Advice, err)
		}
	})
}

// A replica that lags is promoted: acknowledged results are gone, as documented,
// and their work runs again; where the effect has a guard, it happens once.
func TestFailoverLosesRecords(t *testing.T) {
	each(t, durable, func(t *testing.T, lib library, primary *redistest.Server) {
		link := redistest.Between(t, primary)
		replica := redistest.Start(t, durable...)
		host, port, _ := net.SplitHostPort(link.Addr)
		replica.Do("REPLICAOF", host, port)
		eventually(t, "replication", func() bool { return replica.Info("replication", "master_link_status") == "up" })

		// Whoever reaches the store reaches the primary of the moment.
		front := redistest.Between(t, primary)
		s := lib.open(t, "", front.Addr)
		d, err := s.Describe(t.Context())
		if err != nil || d.Survives&ibid.Failover != 0 || d.Advice[ibid.Failover] == "" {
			t.Fatalf("Describe: %+v, %v", d, err)
		}
		engine := newEngine(t, s, nil)
		effects, guarded := make(map[string]int), make(map[string]bool)
		work := func(id string) ibid.Work {
			return func(context.Context) ([]byte, error) {
				effects[id]++
				guarded[id] = true // a unique constraint: the second time does nothing
				return []byte("receipt"), nil
			}
		}
		do := func(id string) {
			eventually(t, "answer", func() bool {
				_, _, err := engine.Do(limit(t, 5*time.Second), call(id), work(id))
				return err == nil
			})
		}
		do("replicated")
		eventually(t, "replicated record", func() bool {
			return replica.Number("replication", "master_repl_offset") >= primary.Number("replication", "master_repl_offset")
		})
		link.Sever()
		ids := []string{"a", "b", "c", "d", "e"}
		for _, id := range ids {
			do(id)
		}
		primary.Kill()
		replica.Do("REPLICAOF", "NO", "ONE")
		front.Retarget(replica)
		for _, id := range ids {
			do(id)
		}
		do("replicated")
		lost := 0
		for _, id := range ids {
			if effects[id] > 1 {
				lost++
			}
		}
		t.Logf("%d of %d acknowledged results lost", lost, len(ids))
		if lost == 0 {
			t.Error("nothing was lost: the documentation says it can be")
		}
		if effects["replicated"] != 1 {
			t.Errorf("what was replicated ran %d times", effects["replicated"])
		}
		if len(guarded) != len(ids)+1 {
			t.Errorf("%d guarded effects, want %d", len(guarded), len(ids)+1)
		}
	})
}

// Every verb is refused by a replica: nobody reads what may lag.
func TestReplicaIsRefused(t *testing.T) {
	each(t, nil, func(t *testing.T, lib library, primary *redistest.Server) {
		replica := redistest.Start(t)
		host, port, _ := net.SplitHostPort(primary.Addr)
		replica.Do("REPLICAOF", host, port)
		eventually(t, "replication", func() bool { return replica.Info("replication", "master_link_status") == "up" })
		k, c := newKey(), newClaim()
		s := lib.open(t, "", primary.Addr)
		mustOwn(t, s, k, c)
		complete(t, s, k, c, "done")
		eventually(t, "replicated record", func() bool { return replica.Do("EXISTS", rawKey("ibid:", k)) == "1" })

		stale := lib.open(t, "", replica.Addr)
		refuse(t, stale, k, c)
	})
}

func refuse(t *testing.T, s *redisstore.Store, k ibid.Digest, c ibid.Claim) {
	t.Helper()
	ctx := t.Context()
	_, beginErr := s.Begin(ctx, k, newClaim())
	_, lookErr := s.Look(ctx, k)
	for verb, err := range map[string]error{
		"Begin": beginErr, "Look": lookErr,
		"Extend":   s.Extend(ctx, k, c.Token, time.Hour),
		"Complete": s.Complete(ctx, k, c.Token, []byte("other"), ibid.Keep{Retain: long}),
		"Release":  s.Release(ctx, k, c.Token),
	} {
		if err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s at a replica: %v, want the server's refusal", verb, err)
		}
	}
}
