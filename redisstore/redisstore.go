package redisstore

import (
	"fmt"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/redisstore/internal/protocol"
	"github.com/redis/rueidis"
)

// DefaultPrefix begins every key unless Options.Prefix says otherwise.
const DefaultPrefix = protocol.DefaultPrefix

// Options of a Store. A nil *Options, and the zero value of every field, is the
// default. Its one field is
//
//	Prefix string // begins every key; default "ibid:"; no braces
//
// Stores of one server share their records exactly when they share the prefix.
type Options = protocol.Options

// Store is an ibid.Store on a Redis or Valkey server, also an ibid.Notifier,
// Inspector, Checkpointer and Describer. It is safe for concurrent use.
//
// Close ends the subscription that the first Watch began. It does not close the
// client.
type Store = protocol.Store

// New returns a store on client, which may be of a single server, of Sentinel,
// or of a cluster. It asks the server nothing.
//
// The client's own repetition of commands may be on or off (DisableRetry): it
// repeats reads only, and the store sends none with a key.
func New(client rueidis.Client, opts *Options) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: client is nil", ibid.ErrInvalid)
	}
	return protocol.New(conn{client}, opts)
}
