// Package sqlstore keeps ibid's records in an SQL database, through
// database/sql and any driver. It speaks SQLite (OpenSQLite), PostgreSQL
// (OpenPostgres), and MySQL or MariaDB (OpenMySQL).
//
//	db, err := sql.Open("sqlite", "file:payments.db?_pragma=synchronous(FULL)&_txlock=immediate")
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	store, err := sqlstore.OpenSQLite(ctx, db, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	engine, err := ibid.New(ctx, store, &ibid.Options{Require: ibid.ProcessKill | ibid.PowerLoss})
//
// The records may live in a database of their own, or beside the application's
// tables, where CompleteTx records a result in the same transaction as the effect.
//
// Do goes further: the claim, the work's own writes and its result are one
// transaction, and steps.StepTx does the same for a step. docs/transactions.md says
// when to use which.
//
// # PostgreSQL, MySQL and MariaDB
//
// Any number of processes on any number of hosts share a table; the server's
// clock judges leases and windows. Begin is one round trip for a replay or a key
// that is taken, which writes and locks nothing; for a first run it is one on PostgreSQL and
// two on MySQL. Complete is one and two. A standby or a read-only server is
// refused: it may lag. Waiters of this process are woken; those of others poll,
// except with package pgxstore, which uses the same table. database/sql asks again
// by itself where a connection was lost before it was used; a token recognises its own work.
//
// MySQL is 8.0 or later, MariaDB 10.6 or later, the table InnoDB's.
//
// What follows is about SQLite where it speaks of files.
//
// # Guarantees
//
//   - A write is acknowledged when its commit is: with the default settings it
//     survives the death of every process and a loss of power. Describe reads the
//     settings, and what they promise.
//   - Any number of processes of one host may share a file. Each verb decides under
//     the file's write lock, which it takes before it reads.
//   - Writes of one process that come together share one commit. An error of
//     one fails no other; only a COMMIT that fails, fails for all that it carries, and each
//     of them may then have been applied.
//   - A replay, a Look, and a Begin that finds the key taken read the last
//     commit. They write nothing, and wait for no writer.
//   - A record that was changed by anything but this package is ErrDamaged: it
//     is never replayed, never claimed and never swept.
//
// # What it does not do
//
// It shares no file between hosts: the clock that judges leases is the host's,
// and WAL mode is not for network file systems. It keeps nothing in memory:
// see package memstore. It starts no goroutine: call Sweep from time to time, or the
// file grows. It sets no pragma on connections that are not its own, but for the
// journal mode, which is the file's. It checks the bytes of records, and not
// those of SQLite's trees: damage that hides a row makes its key a new one, and
// only PRAGMA integrity_check may find it.
//
// # MySQL and MariaDB
//
// OpenMySQL keeps records in an InnoDB table; its keys are BINARY(32), its clock is
// the server's, and only a primary is asked. A verb is a read without a lock and, where something
// changes, one write that holds only if nobody wrote meanwhile. In transactional mode
// (Do, Tx) a statement that fails refuses the commit, whatever the work makes of
// the error: some errors of MySQL undo the statement, others the transaction,
// and half of the work must not be committed. What follows speaks of SQLite.
//
// # Files
//
// Records are one table, whose name is an option, and SQLiteSchema prints it.
// Beside the file lie its -wal and -shm, which belong to it: copy all
// three, or use VACUUM INTO. A copy that is put in place later has forgotten
// what was recorded since, and its work runs again.
//
// # Errors
//
// A disk that is full, or PRAGMA max_page_count, is ibid.ErrFull: new keys are
// refused and replays go on. Below max_page_count results find room where their
// pages have it. A disk without a free byte refuses them too, since a commit
// is written to the -wal first: the claim stands, and Complete repeated succeeds
// once there is room.
//
// What SQLite calls corrupt is ibid.ErrDamaged. A lock held by others for longer
// than SQLiteOptions.BusyTimeout is the driver's own error, and so is
// everything else; errors.As reaches it.
package sqlstore
