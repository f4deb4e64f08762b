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
	// TryLock takes the lock of a transaction, or says false at once.
	TryLock = "SELECT pg_try_advisory_xact_lock($1)"
	// Lock waits for it, as long as LockTimeout allows.
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

// LookTx is Look under the lock of the key. found says whether a row stands, also one
// that is no longer kept; now is the server's clock, in microseconds.
func (q *Queries) LookTx(key ibid.Digest, answer *ibid.Record, found *bool, now *int64) *Call {
	var r row
	var standby bool
	return &Call{
		SQL: q.look, Args: []any{key[:]}, Dest: r.dest(&standby),
		done: func(bool) (err error) {
			*found, *now = r.key != nil, r.now
			switch {
			case standby:
				return errStandby
			case r.key == nil:
				*answer = ibid.Record{}
				return nil
			}
			*answer, err = r.view(key, true)
			return err
		},
	}
}

// Insert writes the record of claim, complete from the first, where no row
// stands. It returns no row.
func (q *Queries) Insert(key ibid.Digest, c ibid.Claim, fence int64, result []byte, keep ibid.Keep) (query string, args []any) {
	if result == nil {
		result = []byte{}
	}
	return q.insert, []any{
		key[:], c.Token[:], fence, digest(c.Fingerprint), c.Scope[:], bytesOrNil(c.Label),
		micros(keep.Retain), micros(keep.Remember), result, resultSum(result),
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
