package payments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Headers that switch faults on. They are no part of what is asked for: a retry
// may leave them out.
const (
	// DelayHeader is how long to wait before the charge: "2s".
	DelayHeader = "Demo-Delay"
	// HoldHeader is how long to wait between the charge and the answer: "2s".
	HoldHeader = "Demo-Hold"
	// FailHeader is one of the faults below.
	FailHeader = "Demo-Fail"
	// PadHeader is how many bytes to add to the answer.
	PadHeader = "Demo-Pad"
)

// Faults of FailHeader.
const (
	Fail503Before  = "503-before"  // answers 503, and nothing was charged
	Fail500After   = "500-after"   // answers 500, after the charge
	FailPanicAfter = "panic-after" // panics after the charge
	FailExitAfter  = "exit-after"  // ends the process after the charge
)

const (
	maxDelay = 5 * time.Minute
	maxPad   = 64 << 20
)

// errBefore is the fault Fail503Before, errAfter is Fail500After.
var (
	errBefore = errors.New("asked to fail before the charge")
	errAfter  = errors.New("asked to fail after the charge")
)

// faults is what one request asks for.
type faults struct {
	delay, hold time.Duration
	fail        string
	pad         int
}

// parseFaults returns an error that names the header and what it may be.
func parseFaults(h http.Header) (faults, error) {
	var f faults
	for name, d := range map[string]*time.Duration{DelayHeader: &f.delay, HoldHeader: &f.hold} {
		v := h.Get(name)
		if v == "" {
			continue
		}
		var err error
		if *d, err = time.ParseDuration(v); err != nil || *d < 0 || *d > maxDelay {
			return f, fmt.Errorf("%s is %q: it must be a duration between 0s and %v, such as 2s", name, v, maxDelay)
		}
	}
	known := []string{Fail503Before, Fail500After, FailPanicAfter, FailExitAfter}
	if f.fail = h.Get(FailHeader); f.fail != "" && !slices.Contains(known, f.fail) {
		return f, fmt.Errorf("%s is %q: it must be one of %s", FailHeader, f.fail, strings.Join(known, ", "))
	}
	if v := h.Get(PadHeader); v != "" {
		var err error
		if f.pad, err = strconv.Atoi(v); err != nil || f.pad < 0 || f.pad > maxPad {
			return f, fmt.Errorf("%s is %q: it must be a number of bytes between 0 and %d", PadHeader, v, maxPad)
		}
	}
	return f, nil
}

// before is called before the effect.
func (f faults) before(ctx context.Context) error {
	if err := sleep(ctx, f.delay); err != nil {
		return err
	}
	if f.fail == Fail503Before {
		return errBefore
	}
	return nil
}

// after is called between the effect and the answer.
func (f faults) after(ctx context.Context) error {
	if err := sleep(ctx, f.hold); err != nil {
		return err
	}
	switch f.fail {
	case Fail500After:
		return errAfter
	case FailPanicAfter:
		panic("payments: asked to panic after the charge")
	case FailExitAfter:
		os.Exit(3)
	}
	return nil
}

// sleep returns early, with the cause, when ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
