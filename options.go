package ibid

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Options of an Engine. A nil *Options, and the zero value of every field, is
// the default.
type Options struct {
	// Policy is how operations are treated that do not say otherwise.
	Policy Policy
	// Secret keys the digests of keys, scopes and fingerprints, so that a store
	// says nothing of what they stand for. It is fixed for the store's life:
	// an engine with another secret does not start. At least 16 bytes; nil is
	// no secret.
	Secret []byte
	// Seal encrypts results and labels at rest, bound to their key. The first
	// key seals, all of them open: to rotate, put the new key first and keep
	// the old one for a window. Nil does not seal. Results that were recorded
	// before anything was sealed still open.
	Seal []SealKey
	// Require is what acknowledged results must survive. An engine whose store
	// cannot promise it does not start. Default: nothing.
	Require Survival
	// Codec encodes the values of Do and Func. Default JSON, by encoding/json.
	Codec Codec
	// MaxResult is the size, in bytes, above which a value of the generic Do or
	// of Func is recorded as not kept. Default 1 MiB; negative is no limit. The
	// bytes of Engine.Do are bounded by the store alone.
	MaxResult int
	// MaxWaiters bounds the calls that wait for another attempt at one time;
	// those above it are answered at once. Default 1,000; negative lets none wait.
	MaxWaiters int
	// MaxPending bounds the results that are still being recorded after their
	// callers were told ErrNotRecorded. Default 1,000; negative lets none.
	MaxPending int
	// StoreTimeout bounds one call of the store, save for List and Sweep, which
	// may read many records and are bounded by their context. Default 5 s.
	StoreTimeout time.Duration
	// AnswerTimeout is how long a caller waits for its result to be recorded
	// before it is told ErrNotRecorded. Default 10 s.
	AnswerTimeout time.Duration
	// RecordTimeout is how long recording is tried in all. Default 5 min; at
	// least AnswerTimeout.
	RecordTimeout time.Duration
	// Observe are called with every event, in order, on the goroutine where it
	// happens: they must be quick, and safe for concurrent use. See LogTo.
	Observe []func(context.Context, Event)
}

// Codec encodes values to bytes and back. What Unmarshal makes of Marshal's
// bytes is what every caller gets, the first one included.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// complete returns a checked copy of o with its defaults filled in.
func (o *Options) complete() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	out.Policy = out.Policy.withDefaults()
	if err := out.Policy.check(); err != nil {
		return out, err
	}
	if n := len(out.Secret); n > 0 && n < 16 {
		return out, fmt.Errorf("%w: Options.Secret has %d bytes: give at least 16 random ones", ErrInvalid, n)
	}
	if out.Codec == nil {
		out.Codec = jsonCodec{}
	}
	pick(&out.MaxResult, 1<<20)
	pick(&out.MaxWaiters, 1000)
	pick(&out.MaxPending, 1000)
	pick(&out.StoreTimeout, 5*time.Second)
	pick(&out.AnswerTimeout, 10*time.Second)
	pick(&out.RecordTimeout, max(5*time.Minute, out.AnswerTimeout))
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"StoreTimeout", out.StoreTimeout},
		{"AnswerTimeout", out.AnswerTimeout},
		{"RecordTimeout", out.RecordTimeout - out.AnswerTimeout + 1},
	} {
		if f.d <= 0 || f.d > maxDuration {
			return out, fmt.Errorf("%w: Options.%s is out of range", ErrInvalid, f.name)
		}
	}
	return out, nil
}
