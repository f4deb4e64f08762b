package pgsql

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
)

// Transactional mode: the key is held by an advisory lock of the transaction, and
// the record is written last. Whoever dies leaves nothing behind.
const (
	// Lock waits for the lock of a transaction, as long as LockTimeout allows.
	Lock = "SELECT pg_advisory_xact_lock($1)"
	// ReadLockTimeout and SetLockTimeout are of this transaction.
	ReadLockTimeout = "SELECT current_setting('lock_timeout')"
	SetLockTimeout  = "SELECT set_config('lock_timeout', $1, true)"

	lockNotAvailable = "55P03"
	uniqueViolation  = "23505"
)

// LockKey is the number of key's advisory lock. Two keys that share one
// wait for each other, and no more.
func (q *Queries) LockKey(key ibid.Digest) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(q.table))
	return int64(binary.BigEndian.Uint64(key[:8]) ^ h.Sum64())
}

// LockTimeout is d as the server takes it. 0 would be no limit.
func LockTimeout(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Millisecond-1)/time.Millisecond)), 10)
}

// LockTimedOut reports that a lock was not granted in time.
func LockTimedOut(err error) bool { return state(err) == lockNotAvailable }

// Duplicate reports that a row with the key stands already.
func Duplicate(err error) bool { return state(err) == uniqueViolation }

// Under is what LookTx found.
type Under struct {
	Record ibid.Record
	Locked bool  // the transaction has the lock of the key
	Stands bool  // there is a row, if only one that is no longer kept
	Now    int64 // the server's clock, in microseconds
}

// LookTx is Look, and takes the lock of the key if nobody has it.
func (q *Queries) LookTx(key ibid.Digest, answer *Under) *Call {
	var r row
	var standby, locked bool
	return &Call{
		SQL: q.lookLock, Args: []any{key[:], q.LockKey(key)}, Dest: r.dest(&standby, &locked),
		done: func(bool) error {
			*answer = Under{Locked: locked, Stands: r.record != nil, Now: r.now}
			switch {
			case standby:
				return errStandby
			case r.record != nil:
				return r.at(key, &answer.Record)
			}
			return nil
		},
	}
}

// Insert writes the record of claim, complete from the first, where no row
// stands. now is the server's clock, in microseconds. It returns no row.
func (q *Queries) Insert(key ibid.Digest, c ibid.Claim, fence, now int64, result []byte, keep ibid.Keep) (query string, args []any) {
	if result == nil {
		result = []byte{}
	}
	windowEnd := now + micros(keep.Retain)
	gone := windowEnd + micros(keep.Remember)
	print, label, sum := digest(c.Fingerprint), bytesOrNil(c.Label), resultSum(result)
	checksum := sumOfColumns(
		key[:], int16(layout), int16(stateDone), c.Token[:], fence, int32(1), int32(0), int32(0),
		print, c.Scope[:], label, []byte(nil), int64(0), windowEnd, gone, sum,
	)
	return q.insert, []any{
		key[:], int16(layout), int16(stateDone), c.Token[:], fence, int32(1), int32(0), int32(0),
		print, c.Scope[:], label, windowEnd, gone, sum, result, checksum,
	}
}

// Constraint is the name of the one that keeps keys unique.
func (q *Queries) Constraint() string {
	_, base, qualified := strings.Cut(q.table, ".")
	if !qualified {
		base = q.table
	}
	return base + "_pkey"
}

// Undone reports that err, of a COMMIT, says that nothing was committed: the server
// named an error, and not that it ends, or cannot tell.
func Undone(err error) bool {
	s := state(err)
	if len(s) != 5 || s == "40003" {
		return false
	}
	switch s[:2] {
	case "08", "53", "57", "58", "XX":
		return false
	}
	return true
}
