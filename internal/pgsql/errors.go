package pgsql

import (
	"errors"
	"fmt"
)

// SQLSTATEs that the store acts on.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnlyTransaction  = "25006"
)

var errStandby = errors.New("the server is a standby, which may lag: connect to the primary (target_session_attrs=read-write)")

// state returns the SQLSTATE of an error of any driver that tells it.
func state(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// Conflict reports that the server undid a whole transaction because of others
// that ran beside it: run again, it may succeed.
func Conflict(err error) bool {
	s := state(err)
	return s == serializationFailure || s == deadlockDetected
}

// explain adds to an error what its reader should do.
func explain(err error) error {
	if state(err) == readOnlyTransaction {
		return fmt.Errorf("%w (%w)", err, errStandby)
	}
	return err
}
