// Package protocol is the Redis store without a client library: the scripts,
// the bytes of a record, and what a store asks of a server. A client is added
// with the few calls of Conn.
package protocol

import (
	"context"
	"fmt"
	"strconv"
)

// Conn is what the store asks of a client library. Keys and arguments are
// binary. An error that the server answered begins with its code, such as OOM,
// or wraps one whose text does.
type Conn interface {
	// SetNew is SET key value NX GET PX ms: found says whether old stood there.
	SetNew(ctx context.Context, key, value string, ms int64) (old []byte, found bool, err error)
	// Run runs a script on one key, with EVALSHA, or with EVAL where text is
	// set, and returns its answer: old is the string that it answers with, nil
	// of a number; or, of a list, shown holds the numbers, and old the string,
	// that stand in it.
	Run(ctx context.Context, s *Script, text bool, key string, args []string) (old []byte, shown *Shown, err error)
	// Time is TIME of any server, in microseconds.
	Time(ctx context.Context) (int64, error)
	// Primaries returns the servers that decide about some key: one, or those
	// of a cluster.
	Primaries(ctx context.Context) ([]Node, error)
	// Subscribe blocks until ctx ends or the subscription does. It calls ready
	// each time the server confirms it, and message with each that arrives.
	Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error
}

// Shown is what a script tells that changed nothing: how many milliseconds the
// key has left, and the server's time. Of an empty list all are zero.
type Shown struct{ Left, Seconds, Micros int64 }

// Node is one server.
type Node interface {
	// Scan is SCAN cursor MATCH pattern COUNT count.
	Scan(ctx context.Context, cursor uint64, pattern string, count int) (keys []string, next uint64, err error)
	// Info is INFO.
	Info(ctx context.Context) (string, error)
	// Config is CONFIG GET of the names.
	Config(ctx context.Context, names ...string) (map[string]string, error)
}

// Micros reads the two parts of TIME's answer.
func Micros(parts []string) (int64, error) {
	if len(parts) != 2 {
		return 0, fmt.Errorf("TIME answered %q", parts)
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return 0, err
	}
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	return seconds*1_000_000 + micros, err
}
