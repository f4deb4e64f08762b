// Package stores opens a store by its URL.
//
//	memory:                                 in this process, gone with it
//	sqlite:PATH                             an SQLite file: sqlite:keys.db, sqlite:/var/lib/app/keys.db
//	redis://USER:PASSWORD@HOST:PORT/DB      Redis or Valkey; rediss: with TLS; ?prefix=P begins every key
//	postgres://USER:PASSWORD@HOST:PORT/DB   PostgreSQL, with the parameters of pgx; ?table=T names the table
//	mysql://USER:PASSWORD@HOST:PORT/DB      MySQL or MariaDB, with the parameters of go-sql-driver; ?table=T
//	redis://…+postgres://…                  Redis replays in front of a store that decides: also +mysql, +sqlite
package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/sqlstore"
)

// Help says which URLs there are, in a line.
const Help = "memory:, sqlite:PATH, redis://…, postgres://…, mysql://… or redis://…+postgres://…"

// Opened is an open store.
type Opened struct {
	ibid.Store
	// URL is what it was opened by.
	URL string
	// Path is the file of a sqlite store; "" for others.
	Path string

	close func() error
}

// Unwrap returns the store itself, for ibid.As.
func (o *Opened) Unwrap() ibid.Store { return o.Store }

// Close closes the store.
func (o *Opened) Close() error { return o.close() }

// Options of Open. Nil is the default.
type Options struct {
	// Existing refuses to make a file or a table that does not exist, for those who look
	// at a store that a service is using. Default false. It refuses memory:
	// too: what a service keeps in its memory nobody else can open.
	Existing bool
}

// Open opens the store at address.
func Open(ctx context.Context, address string, opts *Options) (*Opened, error) {
	existing := opts != nil && opts.Existing
	if front, decides, ok := split(address); ok {
		return openLayered(ctx, address, front, decides, existing)
	}
	kind, path, ok := strings.Cut(address, ":")
	if !ok {
		return nil, fmt.Errorf("store %q: no such kind of address: use %s", address, Help)
	}
	switch kind {
	case "memory":
		switch {
		case path != "":
			return nil, fmt.Errorf("store %q: the address must end after memory:, a store in memory has no name", address)
		case existing:
			return nil, fmt.Errorf("store %q: what a service keeps in its memory cannot be opened from outside of it", address)
		}
		return &Opened{Store: memstore.New(nil), URL: address, close: func() error { return nil }}, nil
	case "sqlite":
		return openSQLite(ctx, address, path, existing)
	case "redis", "rediss", "valkey", "valkeys":
		return openRedis(address)
	case "postgres", "postgresql":
		return openPostgres(ctx, address, existing)
	case "mysql", "mariadb":
		return openMySQL(ctx, address, existing)
	}
	return nil, fmt.Errorf("store %q: %q is no kind of store: use %s", Shown(address), kind, Help)
}

func openSQLite(ctx context.Context, address, path string, existing bool) (*Opened, error) {
	path = strings.TrimPrefix(path, "//")
	if path == "" {
		return nil, fmt.Errorf("store %q: name a file: sqlite:keys.db", address)
	}
	if existing {
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("store %q: there is no such file", address)
		case err != nil:
			return nil, fmt.Errorf("store %q: %w", address, err)
		}
	}
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, err)
	}
	store, err := sqlstore.OpenSQLite(ctx, db, &sqlstore.SQLiteOptions{NoMigrate: existing})
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, errors.Join(err, db.Close()))
	}
	return &Opened{Store: store, URL: address, Path: path, close: func() error {
		return errors.Join(store.Close(), db.Close())
	}}, nil
}
