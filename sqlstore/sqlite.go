package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibid-go/ibid"
)

// SQLite is a store in an SQLite database. It is safe for concurrent use, also
// by several processes on one host that open the same file.
//
// Writes of one process pass through one connection, and those that come
// together are committed together. Reads, and with them replays, have
// connections of their own: they write nothing and wait for no writer.
//
// It is also an ibid.TxStore, ibid.Sweeper, ibid.Inspector, ibid.Checkpointer,
// ibid.Notifier (within this process) and ibid.Describer.
type SQLite struct {
	db      *sql.DB
	opts    SQLiteOptions
	queries queries
	queue   queue
	writer  *writer                     // nil until the next write opens it; only the leader touches it
	readers chan *reader                // as many as Options.Readers, idle ones
	held    atomic.Pointer[ibid.Digest] // the key that a transaction of BeginTx holds
	closed  chan struct{}
	once    sync.Once
	watch   watchers
}

// SQLiteOptions of OpenSQLite. A nil *SQLiteOptions, and the zero value of
// every field, is the default.
type SQLiteOptions struct {
	// Table is the name of the table, and how the names of its index and of
	// its schema table begin: up to 48 ASCII letters, digits and underscores,
	// not beginning with a digit. Default "ibid_record".
	Table string
	// Synchronous is what a commit waits for. Default SyncFull.
	Synchronous Synchronous
	// BusyTimeout is how long a write waits while another connection or process
	// holds the write lock; the write's context bounds it too. Default 5 s;
	// negative does not wait.
	BusyTimeout time.Duration
	// MaxBatch is how many writes one commit may carry. Default 128; 1 or
	// negative commits each on its own.
	MaxBatch int
	// Readers is how many connections are kept for reading. Default 4;
	// negative is 1.
	Readers int
	// NoMigrate lets OpenSQLite fail, instead of making the table, where it
	// does not exist. See SQLiteSchema.
	NoMigrate bool
}

// Synchronous is what a commit waits for.
type Synchronous uint8

const (
	// SyncFull waits until the disk says that it has the commit: acknowledged
	// writes survive a power loss.
	SyncFull Synchronous = iota
	// SyncExtra is SyncFull that also syncs the folder of a rollback journal.
	// In WAL mode, which this store uses, it is the same.
	SyncExtra
	// SyncNormal waits for the kernel only: acknowledged writes survive the death of
	// every process, and a power loss may take back the last of them, so
	// that their work runs again.
	SyncNormal
)

// pragma returns the value that SQLite knows it by.
func (s Synchronous) pragma() int {
	return [...]int{SyncFull: pragmaFull, SyncExtra: pragmaExtra, SyncNormal: pragmaNormal}[s]
}

// String returns the name that SQLite knows it by.
func (s Synchronous) String() string {
	if s > SyncNormal {
		return fmt.Sprintf("synchronous(%d)", uint8(s))
	}
	return [...]string{SyncFull: "FULL", SyncExtra: "EXTRA", SyncNormal: "NORMAL"}[s]
}

// complete returns a checked copy of o with its defaults filled in.
func (o *SQLiteOptions) complete() (SQLiteOptions, error) {
	var out SQLiteOptions
	if o != nil {
		out = *o
	}
	if out.Table == "" {
		out.Table = defaultTable
	}
	if err := checkTable(out.Table); err != nil {
		return out, err
	}
	if out.Synchronous > SyncNormal {
		return out, fmt.Errorf("%w: SQLiteOptions.Synchronous is %d: choose SyncFull, SyncExtra or SyncNormal", ibid.ErrInvalid, out.Synchronous)
	}
	out.BusyTimeout = choose(out.BusyTimeout, 5*time.Second, 0)
	out.MaxBatch = choose(out.MaxBatch, 128, 1)
	out.Readers = choose(out.Readers, 4, 1)
	return out, nil
}

// choose returns v, or what stands for its being zero or negative.
func choose[T int | time.Duration](v, zero, negative T) T {
	switch {
	case v == 0:
		return zero
	case v < 0:
		return negative
	}
	return v
}

// OpenSQLite returns a store in the database db, which was opened with any
// driver for SQLite, names a file, and stays the caller's to close, after the store.
// It makes the table where there is none, and puts the file into WAL mode, for
// good. It keeps 1 + Readers of db's connections until Close.
//
// The file must lie on a local disk: WAL mode is not for network file systems.
// ErrInvalid reports a database, a table or an option that cannot be used.
func OpenSQLite(ctx context.Context, db *sql.DB, opts *SQLiteOptions) (*SQLite, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: db is nil", ibid.ErrInvalid)
	}
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if n, need := db.Stats().MaxOpenConnections, 2+o.Readers; n != 0 && n < need {
		return nil, fmt.Errorf("%w: db may open %d connections, the store needs %d of its own and one for others: raise SetMaxOpenConns or lower SQLiteOptions.Readers",
			ibid.ErrInvalid, n, need-1)
	}
	s := &SQLite{
		db: db, opts: o, queries: newQueries(o.Table),
		readers: make(chan *reader, o.Readers), closed: make(chan struct{}),
	}
	for range o.Readers {
		s.readers <- &reader{}
	}
	err = retryBusy(ctx, o.BusyTimeout, func() error { return s.prepare(ctx) })
	if err != nil {
		return nil, errors.Join(explain(err), s.Close())
	}
	return s, nil
}

// prepare checks the file, and makes or checks the table.
func (s *SQLite) prepare(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := checkFile(ctx, conn); err != nil {
		return err
	}
	if err := useWAL(ctx, conn); err != nil {
		return err
	}
	return s.migrate(ctx, conn)
}

// checkFile refuses a database that lives in one connection's memory.
func checkFile(ctx context.Context, conn *sql.Conn) error {
	var file string
	err := conn.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file)
	if err != nil {
		return err
	}
	if file == "" {
		return fmt.Errorf("%w: the database is in memory, where each connection has one of its own: name a file, or use package memstore", ibid.ErrInvalid)
	}
	return nil
}

// useWAL puts the file into WAL mode unless it is. A reader in any other mode
// would wait for the writer.
func useWAL(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil || mode == "wal" {
		return err
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the database stays in journal mode %q: WAL needs a local file system with shared memory", ibid.ErrInvalid, mode)
	}
	return nil
}

// Close gives the store's connections back, after the writes that are under way. db stays
// open. A closed store answers every call with an error.
func (s *SQLite) Close() error {
	var err error
	s.once.Do(func() {
		err = s.alone(context.Background(), func() error {
			close(s.closed)
			defer func() { s.writer = nil }()
			return s.writer.close()
		})
		for range cap(s.readers) {
			err = errors.Join(err, (<-s.readers).close())
		}
	})
	return err
}

var errClosed = errors.New("sqlstore: store is closed")
