package sqlstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ibid-go/ibid"
)

// Every driver has an error type of its own, and every one of them quotes
// what SQLite says of its result codes. These are those texts.
const (
	textBusy     = "database is locked"
	textProtocol = "locking protocol" // a race of two that open the file
	textFull     = "database or disk is full"
	textTooBig   = "string or blob too big"
	textReadonly = "attempt to write a readonly database"
	textCorrupt  = "database disk image is malformed"
	textNoDB     = "file is not a database"
)

func says(err error, texts ...string) bool {
	if err == nil {
		return false
	}
	said := err.Error()
	for _, t := range texts {
		if strings.Contains(said, t) {
			return true
		}
	}
	return false
}

// isBusy reports whether err says that a lock is held elsewhere, so that the same
// statement may succeed later.
func isBusy(err error) bool { return says(err, textBusy, textProtocol) }

// explain adds to an error of SQLite what ibid calls it.
func explain(err error) error {
	as := func(sentinel error) error {
		if errors.Is(err, sentinel) {
			return err
		}
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	switch {
	case says(err, textFull):
		return as(ibid.ErrFull)
	case says(err, textTooBig):
		return as(ibid.ErrTooLarge)
	case says(err, textCorrupt, textNoDB):
		return as(ibid.ErrDamaged)
	case says(err, textReadonly):
		return fmt.Errorf("the file, or its folder, may only be read: %w", err)
	}
	return err
}
