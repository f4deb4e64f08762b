package ibid

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// As returns the first store that has ability T: store itself, or one that it
// wraps, found by following Unwrap() Store.
//
//	if s, ok := ibid.As[ibid.Sweeper](store); ok { … }
func As[T any](store Store) (T, bool) {
	for store != nil {
		if t, ok := store.(T); ok {
			return t, true
		}
		w, ok := store.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		store = w.Unwrap()
	}
	var none T
	return none, false
}

// Notifier is a store that can wake those who wait for a key. A wake is a hint:
// it may come without a change, and a lost one costs a waiter no more than the
// engine's polling interval.
type Notifier interface {
	// Watch returns a channel that is closed, or receives, when the record at
	// key has been completed, released or given up after Watch returned. The
	// caller calls stop when it no longer waits; stop may be called twice.
	Watch(ctx context.Context, key Digest) (changed <-chan struct{}, stop func(), err error)
}

// Sweeper is a store that does not forget by itself.
type Sweeper interface {
	// Sweep deletes up to limit records that are no longer kept, and returns
	// how many it deleted. A record that is claimed, in progress, or kept at
	// the moment of deletion stays. Fewer than limit means that none were left.
	Sweep(ctx context.Context, limit int) (deleted int, err error)
}

// Inspector is a store that can list its records, and forget one on purpose.
//
// Resolving an unknown outcome needs no verb of its own: it is Complete, or
// Release, with the token that Look returned.
type Inspector interface {
	// List returns up to limit records that match filter, in ascending order
	// of key, beginning after the key after. It is a view for operators: a
	// record that changes meanwhile may be shown as it was or as it is. The
	// results of completed records are left out.
	List(ctx context.Context, filter Filter, after Digest, limit int) ([]Entry, error)
	// Forget drops what is kept of key, whatever its state, if token still
	// stands there, and raises the key's generation, which stays for window:
	// the work may run again, with derived keys of its own. ErrClaimLost
	// reports that the record changed since token was read.
	//
	// The zero Token drops a damaged record, of which no token can be read. Its
	// generation cannot be read either, and becomes one that no number of
	// forgets reaches.
	Forget(ctx context.Context, key Digest, token Token, window time.Duration) error
}

// Filter selects records. The zero Filter selects all that are kept.
type Filter struct {
	// Scope selects one scope; zero selects all.
	Scope Digest
	// States selects records in one of these states; none selects all.
	States []State
}

// Match reports whether the filter selects r.
func (f Filter) Match(r Record) bool {
	if f.Scope != (Digest{}) && f.Scope != r.Scope {
		return false
	}
	for _, s := range f.States {
		if s == r.State {
			return true
		}
	}
	return len(f.States) == 0 && r.State != Absent
}

// Entry is one listed record.
type Entry struct {
	Key    Digest
	Record Record
}

// Checkpointer is a store that keeps the state of an operation's steps while
// it is in progress.
type Checkpointer interface {
	// Checkpoint replaces the step state of the record at key. ErrClaimLost
	// reports that token no longer stands, or that the record was completed.
	Checkpoint(ctx context.Context, key Digest, token Token, steps []byte) error
}

// Describer is a store that knows what the settings of its server can keep.
type Describer interface {
	// Describe reads the settings as they are now.
	Describe(ctx context.Context) (Description, error)
}

// Survival is a set of disasters that acknowledged writes survive.
type Survival uint8

// The disasters.
const (
	// ProcessKill: the process that uses ibid is killed.
	ProcessKill Survival = 1 << iota
	// ServerKill: the store's server process is killed. For an embedded store
	// that is the process that uses it.
	ServerKill
	// PowerLoss: the store's machine loses power or its kernel stops.
	PowerLoss
	// Failover: the store's primary is lost and a replica takes its place.
	Failover
)

// String lists the disasters in words.
func (s Survival) String() string {
	var names []string
	for i, name := range [...]string{"process kill", "server kill", "power loss", "failover"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// Description is what a store says of itself.
type Description struct {
	// Store names the backend and its version: "SQLite 3.50.4".
	Store string
	// Survives is what acknowledged writes survive.
	Survives Survival
	// Advice says, for each disaster that is not survived, which setting is in
	// the way and what to change.
	Advice map[Survival]string
}

// require returns an error that says what is missing and what to change.
func (d Description) require(want Survival) error {
	for bit := ProcessKill; bit <= Failover; bit <<= 1 {
		if want&bit == 0 || d.Survives&bit != 0 {
			continue
		}
		advice := d.Advice[bit]
		if advice == "" {
			advice = "choose another store, or require less"
		}
		return fmt.Errorf("%w: Require: %s does not survive %s: %s", ErrInvalid, d.Store, bit, advice)
	}
	return nil
}
