package ibid

import "context"

// Do runs work under call.Key, unless an earlier call did, and returns its
// result: byte for byte the same for every call of the key until the window ends. The
// errors are those of errors.go; an error of the work itself, and a
// FinalError, are returned as they are.
//
// The result belongs to the caller.
func (e *Engine) Do(ctx context.Context, call Call, work Work) ([]byte, Outcome, error) {
	panic("TODO")
}

// Drain stops the engine: from now on calls that would claim a key, or wait, are refused
// with ErrDraining, and replays are still served. Drain returns when all work has ended
// and all results are recorded, or with ctx's error.
func (e *Engine) Drain(ctx context.Context) error { panic("TODO") }
