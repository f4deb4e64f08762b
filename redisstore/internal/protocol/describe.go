package protocol

import (
	"context"
	"fmt"
	"strings"

	"github.com/ibid-go/ibid"
)

// What a server keeps, as a policy. Nothing, unless it says that it evicts
// nothing: records have an expiry, and every evicting policy may pick one.
//
// A kill of the server leaves what it had handed to its kernel. With appendfsync
// always and no, the append-only file is written before the answer; with
// everysec the write may wait in memory, for up to two seconds, while an fsync
// is under way. Snapshots lose what was written since the last one.
//
// A loss of power leaves what was synced before the answer: appendfsync always.
//
// Replication is asynchronous: a primary answers before a replica has the
// write. No setting makes the loss of a primary survivable.

// Describe implements ibid.Describer. In a cluster the weakest server counts. A
// server that does not say, because CONFIG and INFO are forbidden to this
// client, is taken at its worst.
func (s *Store) Describe(ctx context.Context) (ibid.Description, error) {
	nodes, err := s.conn.Primaries(ctx)
	if err != nil {
		return ibid.Description{}, err
	}
	all := ibid.Description{
		Store:    "Redis",
		Survives: ibid.ProcessKill | ibid.ServerKill | ibid.PowerLoss | ibid.Failover,
		Advice:   make(map[ibid.Survival]string),
	}
	for _, node := range nodes {
		one, err := settings(ctx, node)
		if err != nil {
			return ibid.Description{}, err
		}
		all.Store = one.name
		for bit, advice := range one.advice() {
			all.Survives &^= bit
			all.Advice[bit] = advice
		}
	}
	return all, nil
}

// server is what one server says of itself; "" is not known.
type server struct {
	name      string
	policy    string // maxmemory-policy
	appending string // appendonly
	sync      string // appendfsync
	onRewrite string // no-appendfsync-on-rewrite
	save      string
	failing   bool // the last write to the append-only file failed
	silent    bool // CONFIG is forbidden
}

func settings(ctx context.Context, node Node) (server, error) {
	sv := server{name: "Redis"}
	info, err := node.Info(ctx)
	if err != nil && !forbidden(err) {
		return sv, err
	}
	said := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, is, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			said[name] = is
		}
	}
	if v := said["redis_version"]; v != "" {
		sv.name = "Redis " + v
	}
	if v := said["valkey_version"]; v != "" {
		sv.name = "Valkey " + v
	}
	sv.policy = said["maxmemory_policy"]
	sv.failing = said["aof_last_write_status"] == "err"
	config, err := node.Config(ctx, "maxmemory-policy", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save")
	switch {
	case err != nil && !forbidden(err):
		return sv, err
	case err != nil:
		sv.silent = true
		return sv, nil
	}
	sv.policy = config["maxmemory-policy"]
	sv.appending, sv.sync, sv.onRewrite, sv.save = config["appendonly"], config["appendfsync"], config["no-appendfsync-on-rewrite"], config["save"]
	return sv, nil
}

// forbidden reports whether a server answered, but not what it was asked.
func forbidden(err error) bool {
	switch code(err) {
	case "NOPERM", "ERR":
		return true
	}
	return false
}

// advice says what is not survived, and which setting is in the way.
func (sv server) advice() map[ibid.Survival]string {
	say := map[ibid.Survival]string{
		ibid.Failover: "replication is asynchronous, and a replica that takes over may not have the last writes: let a SQL store decide, with Redis in front of it, or protect the effect with a guard",
	}
	kept := func(advice string, bits ...ibid.Survival) {
		for _, bit := range bits {
			if say[bit] == "" {
				say[bit] = advice
			}
		}
	}
	switch {
	case sv.policy == "":
		kept("the server does not tell its maxmemory-policy: allow this client INFO and CONFIG GET", ibid.ProcessKill, ibid.ServerKill, ibid.PowerLoss)
	case sv.policy != "noeviction":
		kept(fmt.Sprintf("maxmemory-policy is %s, which may drop any record: set maxmemory-policy noeviction", sv.policy), ibid.ProcessKill, ibid.ServerKill, ibid.PowerLoss)
	}
	switch {
	case sv.silent:
		kept("the server does not tell its persistence: allow this client CONFIG GET", ibid.ServerKill, ibid.PowerLoss)
	case sv.appending != "yes" && sv.save != "":
		kept(fmt.Sprintf("appendonly is %s, and snapshots (save %s) lose what was written since the last one: set appendonly yes and appendfsync always", sv.appending, sv.save), ibid.ServerKill, ibid.PowerLoss)
	case sv.appending != "yes":
		kept("the server keeps nothing on disk: set appendonly yes and appendfsync always", ibid.ServerKill, ibid.PowerLoss)
	case sv.failing:
		kept("the server cannot write its append-only file: see its log", ibid.ServerKill, ibid.PowerLoss)
	case sv.sync == "everysec":
		kept("appendfsync is everysec, so that the last two seconds may be in memory only: set appendfsync always", ibid.ServerKill, ibid.PowerLoss)
	case sv.sync != "always":
		kept(fmt.Sprintf("appendfsync is %s: set appendfsync always", sv.sync), ibid.PowerLoss)
	case sv.onRewrite == "yes":
		kept("no-appendfsync-on-rewrite is yes, so that nothing is synced during a rewrite: set it to no", ibid.PowerLoss)
	}
	return say
}
