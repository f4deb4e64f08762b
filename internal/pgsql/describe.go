package pgsql

import (
	"context"
	"fmt"
	"strings"

	"github.com/ibid-go/ibid"
)

// Describe is ibid.Describer's: what is kept, as the server is set.
//
// A commit that synchronous_commit does not wait for is lost when the server
// dies; with fsync or full_page_writes off, when the machine does. Only a
// synchronous standby has every acknowledged commit.
func (q *Queries) Describe(ctx context.Context, db DB) (ibid.Description, error) {
	var version, fsync, pages, commit, standbys, kept string
	var standby bool
	err := db.One(ctx, q.describe, nil, []any{&version, &fsync, &pages, &commit, &standbys, &standby, &kept})
	if err != nil {
		return ibid.Description{}, err
	}
	number, _, _ := strings.Cut(version, " ")
	d := ibid.Description{
		Store:    "PostgreSQL " + number,
		Survives: ibid.ProcessKill,
		Advice:   make(map[ibid.Survival]string),
	}
	survives := func(s ibid.Survival, yes bool, advice string) {
		if yes {
			d.Survives |= s
		} else if d.Advice[s] == "" {
			d.Advice[s] = advice
		}
	}
	waits := "synchronous_commit is off, so a commit is acknowledged before it is written: set it to on or local"
	unlogged := fmt.Sprintf("table %s is UNLOGGED, and emptied after a crash: ALTER TABLE %s SET LOGGED", q.table, q.table)
	switch {
	case standby:
		for _, s := range []ibid.Survival{ibid.ServerKill, ibid.PowerLoss, ibid.Failover} {
			survives(s, false, errStandby.Error())
		}
	case kept != "" && kept != "p":
		for _, s := range []ibid.Survival{ibid.ServerKill, ibid.PowerLoss, ibid.Failover} {
			survives(s, false, unlogged)
		}
	default:
		survives(ibid.ServerKill, commit != "off", waits)
		switch {
		case commit == "off":
			survives(ibid.PowerLoss, false, waits)
		case fsync != "on":
			survives(ibid.PowerLoss, false, "fsync is off: set it to on in postgresql.conf")
		default:
			survives(ibid.PowerLoss, pages == "on", "full_page_writes is off, so a page half written stays so: set it to on in postgresql.conf")
		}
		switch {
		case strings.TrimSpace(standbys) == "":
			survives(ibid.Failover, false, "no standby is synchronous: set synchronous_standby_names, and promote only a standby that it names")
		default:
			survives(ibid.Failover, commit == "on" || commit == "remote_apply" || commit == "remote_write",
				"synchronous_commit is "+commit+", which waits for no standby: set it to on")
		}
	}
	return d, nil
}
