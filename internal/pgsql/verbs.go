package pgsql

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// Call is one verb: a statement, and what its answer means. It may be asked
// again, in the same words, until Done is content.
type Call struct {
	SQL  string
	Args []any
	Dest []any // of the one row that it returns, if any
	done func(found bool) error
}

// errRaced reports that another caller changed the record while the statement
// ran, so that it neither wrote nor knows what stands there now.
var errRaced = errors.New("ibid: the record changes faster than it can be read")

// Done takes the error of asking, of which that of no row is none, and returns
// that of the verb. again reports that the call should be asked again, and err
// what is wrong with it if that does not help either.
func (c *Call) Done(err error) (again bool, _ error) {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = c.done(false)
	case err == nil:
		err = c.done(true)
	default:
		return Conflict(err), explain(err)
	}
	return errors.Is(err, errRaced), err
}

// Begin is ibid.Store's; answer is set when Done returns no error.
func (q *Queries) Begin(key ibid.Digest, c ibid.Claim, answer *ibid.Record) *Call {
	var r row
	var until int64
	lease := micros(c.Lease)
	call := &Call{
		SQL:  q.begin,
		Args: []any{key[:], c.Token[:], digest(c.Fingerprint), c.Scope[:], bytesOrNil(c.Label), lease, micros(c.Window), limit(c.MaxTakeovers), limit(c.MaxAttempts)},
		Dest: r.dest(&until),
	}
	call.done = func(found bool) (err error) {
		if !found {
			return errRaced
		}
		if *answer, err = r.view(true); err == nil && answer.OwnedBy(c.Token) && until-r.now > lease/2 {
			// It waited for a lock, and the lease with it. The token stands, so
			// asking again grants a fresh one.
			return errRaced
		}
		return err
	}
	return call
}

// Look is ibid.Store's; answer is set when Done returns no error.
func (q *Queries) Look(key ibid.Digest, answer *ibid.Record) *Call {
	var r row
	var found, standby bool
	return &Call{
		SQL: q.look, Args: []any{key[:]}, Dest: r.dest(&found, &standby),
		done: func(bool) (err error) {
			switch {
			case standby:
				return errStandby
			case !found:
				*answer = ibid.Record{}
				return nil
			}
			*answer, err = r.view(true)
			return err
		},
	}
}

// Complete is ibid.Store's.
func (q *Queries) Complete(key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) *Call {
	if result == nil {
		result = []byte{}
	}
	return write(q.complete, key[:], token[:], result, int64(resultSum(result)), micros(keep.Retain), micros(keep.Remember))
}

// Extend is ibid.Store's.
func (q *Queries) Extend(key ibid.Digest, token ibid.Token, lease time.Duration) *Call {
	return write(q.extend, key[:], token[:], micros(lease))
}

// Release is ibid.Store's.
func (q *Queries) Release(key ibid.Digest, token ibid.Token) *Call {
	call := write(q.release, key[:], token[:])
	done := call.done
	call.done = func(found bool) error {
		if err := done(found); !errors.Is(err, ibid.ErrClaimLost) {
			return err
		}
		return nil
	}
	return call
}

// Checkpoint is ibid.Checkpointer's.
func (q *Queries) Checkpoint(key ibid.Digest, token ibid.Token, steps []byte) *Call {
	return write(q.checkpoint, key[:], token[:], bytesOrNil(steps))
}

// Forget is ibid.Inspector's.
func (q *Queries) Forget(key ibid.Digest, token ibid.Token, window time.Duration) *Call {
	return write(q.forget, key[:], token[:], micros(window))
}

// write is a verb that changes the record under a token.
func write(query string, args ...any) *Call {
	var outcome string
	var woke *string
	return &Call{
		SQL: query, Args: args, Dest: []any{&outcome, &woke},
		done: func(found bool) error {
			if !found {
				return ibid.ErrClaimLost
			}
			switch outcome {
			case "changed", "same":
				return nil
			case "lost":
				return ibid.ErrClaimLost
			case "raced":
				return errRaced
			case "damaged":
				return fmt.Errorf("%w: version or checksum", ibid.ErrDamaged)
			}
			return fmt.Errorf("ibid: the server answered %q", outcome)
		},
	}
}

// Watch flags the claim at key; see Channel.
func (q *Queries) Watch(key ibid.Digest) (query string, args []any) { return q.watch, []any{key[:]} }

// Channel is where the ends of flagged claims are announced, with the key in
// hexadecimal.
func (q *Queries) Channel() string { return channel(q.table) }

func digest(f ibid.Fingerprint) []byte {
	if f == (ibid.Fingerprint{}) {
		return []byte{}
	}
	return f[:]
}

func bytesOrNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// limit returns n as the server keeps it.
func limit(n int) int64 { return int64(max(-1, min(n, 1<<31-1))) }
