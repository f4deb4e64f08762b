package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
)

// Numbers of errors that the store acts on.
const (
	mysqlDuplicate   = 1062 // the key is there already
	mysqlLockTimeout = 1205 // ends the statement, and not the transaction
	mysqlDeadlock    = 1213 // ends the whole transaction
	mysqlReadOnly    = 1290
	mysqlNoSavepoint = 1305
	mysqlDiskFull    = 1021
	mysqlTableFull   = 1114
)

var errReadOnly = errors.New("the server is read-only, as a replica is, which may lag: connect to the primary")

// mysqlError returns the number of a server's error; 0 if it has none. Drivers
// keep it in a field Number, or say it first in their text.
func mysqlError(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() == reflect.Struct {
			if n := v.FieldByName("Number"); n.IsValid() && n.CanUint() {
				return int(n.Uint())
			}
		}
		var n int
		if _, e := fmt.Sscanf(err.Error(), "Error %d", &n); e == nil {
			return n
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				if n := mysqlError(e); n != 0 {
					return n
				}
			}
			return 0
		}
	}
	return 0
}

// explainMySQL adds to an error what its reader should do.
func explainMySQL(err error) error {
	switch mysqlError(err) {
	case mysqlReadOnly:
		if strings.Contains(err.Error(), "read-only") || strings.Contains(err.Error(), "read_only") {
			return fmt.Errorf("%w (%w)", err, errReadOnly)
		}
	case mysqlDiskFull, mysqlTableFull:
		return fmt.Errorf("%w: %w", ibid.ErrFull, err)
	}
	return err
}

// rest waits a moment before the n-th try.
func rest(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	t := time.NewTimer(rand.N(time.Duration(n) * 5 * time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
