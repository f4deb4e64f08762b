package sqlstore

import (
	"context"
	"strings"

	"github.com/ibid-go/ibid"
)

// Describe implements ibid.Describer: what is kept, as the server is set.
//
// What InnoDB does not write at the commit is lost with the server, what it does
// not flush with the machine. Where there is a binary log, recovery undoes commits
// that are missing from it, so it must be flushed, too.
func (s *MySQL) Describe(ctx context.Context) (ibid.Description, error) {
	var version string
	if err := s.db.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return ibid.Description{}, err
	}
	set := make(map[string]string) // setting → value
	var name, value string
	err := runner{s.db}.All(ctx, `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'log_bin', 'sync_binlog')`,
		nil, []any{&name, &value}, func() error {
			set[strings.ToLower(name)] = strings.ToUpper(value)
			return nil
		})
	if err != nil {
		return ibid.Description{}, err
	}
	return mysqlDescription(version, set), nil
}

func mysqlDescription(version string, set map[string]string) ibid.Description {
	name := "MySQL "
	if strings.Contains(version, "MariaDB") {
		name = "MariaDB "
	}
	version, _, _ = strings.Cut(version, "-")
	d := ibid.Description{
		Store: name + version, Survives: ibid.ProcessKill,
		Advice: map[ibid.Survival]string{
			ibid.Failover: "a replica may lag, and a semi-synchronous one stops being waited for: choose PostgreSQL with a synchronous standby, or require less",
		},
	}
	flush := set["innodb_flush_log_at_trx_commit"]
	if flush == "0" {
		d.Advice[ibid.ServerKill] = "innodb_flush_log_at_trx_commit is 0, so a commit is acknowledged before it is written: set it to 1"
	} else {
		d.Survives |= ibid.ServerKill
	}
	switch {
	case flush != "1" && flush != "3":
		d.Advice[ibid.PowerLoss] = "innodb_flush_log_at_trx_commit is " + flush + ", so a commit is acknowledged before it is on disk: set it to 1"
	case set["innodb_doublewrite"] == "OFF" || set["innodb_doublewrite"] == "0":
		d.Advice[ibid.PowerLoss] = "innodb_doublewrite is off, so a page half written stays so: set it to ON"
	case set["log_bin"] == "ON" && set["sync_binlog"] != "1":
		d.Advice[ibid.PowerLoss] = "sync_binlog is " + set["sync_binlog"] + ", and recovery undoes commits that the binary log has lost: set it to 1"
	default:
		d.Survives |= ibid.PowerLoss
	}
	return d
}
