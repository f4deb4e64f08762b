package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/redisstore"
	"github.com/ibid-go/ibid/sqlstore"
)

var password = regexp.MustCompile(`(://[^:/@\s]*):[^@/\s]*@`)

// Shown is an address without its passwords, for messages and logs.
func Shown(address string) string { return password.ReplaceAllString(address, "$1:***@") }

// errAddress reports that it is the address that is wrong, and not the server.
var errAddress = errors.New("no URL of such a store")

// failed wraps an error of a store that could not be opened.
func failed(address string, err error) error {
	return fmt.Errorf("store %q: %w", Shown(address), err)
}

// parameter takes a parameter of our own out of a URL.
func parameter(address, name string) (rest, value string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", "", errAddress // the parser's own words would show a password
	}
	q := u.Query()
	if value = q.Get(name); value != "" {
		q.Del(name)
		u.RawQuery = q.Encode()
	}
	return u.String(), value, nil
}

func openRedis(address string) (*Opened, error) {
	rest, prefix, err := parameter(address, "prefix")
	if err != nil {
		return nil, failed(address, err)
	}
	o, err := rueidis.ParseURL(rest)
	if err != nil {
		return nil, failed(address, fmt.Errorf("%w: redis://HOST:PORT/DB", errAddress))
	}
	o.DisableCache, o.DisableRetry = true, true
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, failed(address, err)
	}
	store, err := redisstore.New(client, &redisstore.Options{Prefix: prefix})
	if err != nil {
		client.Close()
		return nil, failed(address, err)
	}
	return &Opened{Store: store, URL: address, close: func() error {
		err := store.Close()
		client.Close()
		return err
	}}, nil
}

func openPostgres(ctx context.Context, address string, existing bool) (*Opened, error) {
	rest, table, err := parameter(address, "table")
	if err != nil {
		return nil, failed(address, err)
	}
	pool, err := pgxpool.New(ctx, rest)
	if err != nil {
		return nil, failed(address, fmt.Errorf("%w: postgres://USER@HOST:PORT/DATABASE", errAddress))
	}
	store, err := pgxstore.New(ctx, pool, &pgxstore.Options{Table: table, NoMigrate: existing})
	if err != nil {
		pool.Close()
		return nil, failed(address, err)
	}
	return &Opened{Store: store, URL: address, close: func() error {
		err := store.Close()
		pool.Close()
		return err
	}}, nil
}

func openMySQL(ctx context.Context, address string, existing bool) (*Opened, error) {
	db, table, err := mysqlDB(address)
	if err != nil {
		return nil, failed(address, err)
	}
	store, err := sqlstore.OpenMySQL(ctx, db, &sqlstore.MySQLOptions{Table: table, NoMigrate: existing})
	if err != nil {
		return nil, failed(address, errors.Join(err, db.Close()))
	}
	return &Opened{Store: store, URL: address, close: func() error {
		return errors.Join(store.Close(), db.Close())
	}}, nil
}

// mysqlDB makes of a URL what the driver asks for.
func mysqlDB(address string) (db *sql.DB, table string, err error) {
	rest, table, err := parameter(address, "table")
	if err != nil {
		return nil, "", err
	}
	u, err := url.Parse(rest)
	if err != nil {
		return nil, "", err
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	plain := mysql.NewConfig()
	plain.Net, plain.Addr, plain.DBName = "tcp", net.JoinHostPort(u.Hostname(), port), strings.TrimPrefix(u.Path, "/")
	plain.User = u.User.Username()
	plain.Passwd, _ = u.User.Password()
	name := plain.FormatDSN()
	if u.RawQuery != "" {
		name += map[bool]string{true: "&", false: "?"}[strings.Contains(name, "?")] + u.RawQuery
	}
	config, err := mysql.ParseDSN(name)
	if err == nil && config.DBName == "" {
		err = errors.New("no database")
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: mysql://USER@HOST:PORT/DATABASE", errAddress)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, "", err
	}
	db = sql.OpenDB(connector)
	db.SetMaxIdleConns(16)
	return db, table, nil
}

var _ ibid.Store = (*Opened)(nil)
