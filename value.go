package ibid

import (
	"context"
	"errors"
	"fmt"
)

// Do runs fn under call.Key, unless an earlier call did, and returns its
// result. Every caller, the first one included, gets what the engine's codec
// makes of the recorded bytes. fn is Work that returns a value: see there for
// what its error means.
//
// A value that cannot be encoded, or is larger than Options.MaxResult, is
// recorded as not kept: the first caller gets it, later ones ErrNotKept, and
// fn never runs again.
func Do[T any](ctx context.Context, e *Engine, call Call, fn func(context.Context) (T, error)) (T, Outcome, error) {
	var value T
	unkept := false
	work := func(ctx context.Context) ([]byte, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		data, err := e.opts.Codec.Marshal(v)
		if err == nil && e.opts.MaxResult >= 0 && len(data) > e.opts.MaxResult {
			err = fmt.Errorf("%d bytes, more than Options.MaxResult (%d)", len(data), e.opts.MaxResult)
		}
		if err != nil {
			value, unkept = v, true
			return nil, &notKeptError{err}
		}
		return data, nil
	}
	if fn == nil {
		work = nil
	}
	data, out, err := e.do(ctx, call, work, e.opts.Codec)
	var own *notKeptError // and not the ErrNotKept of whoever took over
	switch {
	case unkept && errors.As(err, &own):
		return value, out, nil
	case err != nil:
		return *new(T), out, err
	}
	var recorded T // value may hold what an attempt that was run again returned
	if err := e.opts.Codec.Unmarshal(data, &recorded); err != nil {
		return *new(T), out, fmt.Errorf("%w: result is no %T: %w", ErrDamaged, recorded, err)
	}
	return recorded, out, nil
}

// ProbeFor returns the Prober of work that returns a T, for Call.Probe with Do
// and Func.
func ProbeFor[T any](e *Engine, probe func(context.Context) (Found, T, error)) Prober {
	return func(ctx context.Context) (Found, []byte, error) {
		found, v, err := probe(ctx)
		if err != nil || found != FoundDone {
			return found, nil, err
		}
		data, err := e.opts.Codec.Marshal(v)
		return found, data, err
	}
}

// FuncOptions are the options of Func. A nil *FuncOptions, and the zero value
// of every field, is the default.
type FuncOptions[In, Out any] struct {
	// Key makes the operation's key of the input. The default is the
	// function's name as scope, and the encoded input as ID: two calls with
	// equal input are one operation.
	Key func(In) Key
	// Policy overrides the engine's policy; nil overrides nothing.
	Policy *Policy
	// Probe is asked when a vanished attempt was taken over. Required when the
	// policy is Probe, and only then.
	Probe func(context.Context, In) (Found, Out, error)
}

// Func returns fn made idempotent: of all calls with one key, one runs it, and
// all get its result. The input is the fingerprint. name stands for fn in its
// default key; it must not change while records are kept, and differ from that
// of every other function of the engine. Errors are those of Do.
//
// Func panics on an empty name, on fn being nil, and on a Policy that the engine
// refuses, or that asks a Probe that is not there.
func Func[In, Out any](e *Engine, name string, fn func(context.Context, In) (Out, error), opts *FuncOptions[In, Out]) func(context.Context, In) (Out, error) {
	var o FuncOptions[In, Out]
	if opts != nil {
		o = *opts
	}
	if name == "" {
		panic("ibid: Func: name is empty")
	}
	if fn == nil {
		panic("ibid: Func " + name + ": fn is nil")
	}
	if err := e.Check(o.Policy, o.Probe != nil); err != nil {
		panic("ibid: Func " + name + ": " + err.Error())
	}
	return func(ctx context.Context, in In) (Out, error) {
		input, err := e.opts.Codec.Marshal(in)
		if err != nil {
			return *new(Out), fmt.Errorf("%w: input of %s: %w", ErrInvalid, name, err)
		}
		call := Call{
			Key:         Key{Scope: name, ID: string(input)},
			Fingerprint: e.Fingerprint([]byte(name), input),
			Policy:      o.Policy,
			Label:       name,
		}
		if o.Key != nil {
			call.Key = o.Key(in)
		}
		if o.Probe != nil {
			call.Probe = ProbeFor(e, func(ctx context.Context) (Found, Out, error) { return o.Probe(ctx, in) })
		}
		out, _, err := Do(ctx, e, call, func(ctx context.Context) (Out, error) { return fn(ctx, in) })
		return out, err
	}
}
