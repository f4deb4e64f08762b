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

// Done takes the error of asking, of which that of no row is none, and returns
// that of the verb. again reports that the call should be asked again, and err
// what is wrong with it if that does not help either.
func (c *Call) Done(err error) (again bool, _ error) {
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Conflict(err), explain(err)
	}
	return false, c.done(err == nil)
}

// Begin is ibid.Store's; answer is set when Done returns no error.
func (q *Queries) Begin(key ibid.Digest, c ibid.Claim, answer *ibid.Record) *Call {
	var r row
	return &Call{
		SQL: q.begin,
		Args: []any{
			key[:], c.Token[:], digest(c.Fingerprint), c.Scope[:], bytesOrNil(c.Label),
			micros(c.Lease), micros(c.Window), limit(c.MaxTakeovers), limit(c.MaxAttempts),
		},
		Dest: r.dest(),
		done: func(bool) error { return r.at(key, answer) },
	}
}

// at sets answer to the record, which must be that of key.
func (r *row) at(key ibid.Digest, answer *ibid.Record) error {
	found, v, err := r.view(true)
	if err == nil && found != key {
		err = fmt.Errorf("%w: the record of another key", ibid.ErrDamaged)
	}
	*answer = v
	return err
}

// Look is ibid.Store's; answer is set when Done returns no error.
func (q *Queries) Look(key ibid.Digest, answer *ibid.Record) *Call {
	var r row
	var standby bool
	return &Call{
		SQL: q.look, Args: []any{key[:]}, Dest: r.dest(&standby),
		done: func(bool) error {
			switch {
			case standby:
				return errStandby
			case r.record == nil:
				*answer = ibid.Record{}
				return nil
			}
			return r.at(key, answer)
		},
	}
}

// Complete is ibid.Store's.
func (q *Queries) Complete(key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) *Call {
	if result == nil {
		result = []byte{}
	}
	return q.change("complete", key, token, result, micros(keep.Retain), micros(keep.Remember))
}

// CompleteTx is Complete in a transaction with other writes. Where the result
// had been recorded before, so had these: they must not be made again.
func (q *Queries) CompleteTx(c ibid.Completion) *Call {
	call := q.Complete(c.Key, c.Token, c.Result, c.Keep)
	done := call.done
	call.done = func(found bool) error {
		if *call.Dest[0].(*string) == "same" {
			return fmt.Errorf("%w: completed before, by a transaction that was committed", ibid.ErrClaimLost)
		}
		return done(found)
	}
	return call
}

// Extend is ibid.Store's.
func (q *Queries) Extend(key ibid.Digest, token ibid.Token, lease time.Duration) *Call {
	return q.change("extend", key, token, nil, micros(lease), 0)
}

// Release is ibid.Store's.
func (q *Queries) Release(key ibid.Digest, token ibid.Token) *Call {
	call := q.change("release", key, token, nil, 0, 0)
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
	return q.change("checkpoint", key, token, bytesOrNil(steps), 0, 0)
}

// Forget is ibid.Inspector's.
func (q *Queries) Forget(key ibid.Digest, token ibid.Token, window time.Duration) *Call {
	return q.change("forget", key, token, nil, micros(window), 0)
}

// change is a verb that changes the record under a token.
func (q *Queries) change(verb string, key ibid.Digest, token ibid.Token, bytes []byte, a, b int64) *Call {
	var outcome string
	return &Call{
		SQL: q.write, Args: []any{verb, key[:], token[:], bytes, int64(resultSum(bytes)), a, b}, Dest: []any{&outcome},
		done: func(bool) error {
			switch outcome {
			case "done", "same":
				return nil
			case "lost":
				return ibid.ErrClaimLost
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
