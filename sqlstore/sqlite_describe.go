package sqlstore

import (
	"context"
	"fmt"

	"github.com/ibid-go/ibid"
)

// Describe implements ibid.Describer. It reads the settings of the connection
// that writes.
func (s *SQLite) Describe(ctx context.Context) (ibid.Description, error) {
	var d ibid.Description
	err := s.alone(ctx, func() (err error) {
		if s.writer == nil {
			if s.writer, err = s.openWriter(ctx); err != nil {
				return err
			}
		}
		var version, mode string
		var sync int
		for _, q := range []struct {
			query string
			dest  any
		}{
			{"SELECT sqlite_version()", &version},
			{"PRAGMA journal_mode", &mode},
			{"PRAGMA synchronous", &sync},
		} {
			if err := s.writer.conn.QueryRowContext(ctx, q.query).Scan(q.dest); err != nil {
				return err
			}
		}
		d = description(version, mode, sync)
		return nil
	})
	return d, explain(err)
}

// The values of PRAGMA synchronous.
const (
	pragmaOff    = 0
	pragmaNormal = 1
	pragmaFull   = 2
	pragmaExtra  = 3
)

func description(version, mode string, sync int) ibid.Description {
	d := ibid.Description{
		Store:    "SQLite " + version,
		Survives: ibid.ProcessKill | ibid.ServerKill,
		Advice: map[ibid.Survival]string{
			ibid.Failover: "an SQLite file lives on one host and has no replica: choose a store with a server",
		},
	}
	names := [...]string{pragmaOff: "OFF", pragmaNormal: "NORMAL", pragmaFull: "FULL", pragmaExtra: "EXTRA"}
	switch {
	case mode != "wal":
		d.Advice[ibid.PowerLoss] = fmt.Sprintf("journal_mode is %s: something changed it after the store was opened, which set WAL", mode)
	case sync < pragmaFull:
		d.Advice[ibid.PowerLoss] = fmt.Sprintf("synchronous is %s: leave SQLiteOptions.Synchronous at SyncFull", names[sync])
	default:
		d.Survives |= ibid.PowerLoss
	}
	return d
}
