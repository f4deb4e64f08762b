package ibid

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
)

// Attempt is what work can learn about itself, with AttemptFrom.
type Attempt struct {
	// Key is the digest of the operation's key.
	Key Digest
	// Token and Fence are those of the claim. A downstream that keeps the
	// highest fence it has seen can refuse an attempt that was taken over.
	Token Token
	Fence int64
	// Number counts the attempts of this window, from 1 on.
	Number int
	// Vanished counts the earlier attempts that vanished: their effect may
	// have happened.
	Vanished int
	// Guard is set when the store was unavailable and the work runs protected
	// by nothing but the constraint it names. Token and Fence are then zero.
	Guard string
}

// attempt is the Attempt in the work's context, with what only the engine uses.
type attempt struct {
	Attempt
	key        Key
	generation int
	started    atomic.Bool
	engine     *Engine
	keep       Keep
	prepared   atomic.Pointer[prepared]
}

type attemptKey struct{}

// AttemptFrom returns the attempt whose work ctx belongs to; false outside of work.
func AttemptFrom(ctx context.Context) (Attempt, bool) {
	if a := attemptFrom(ctx); a != nil {
		return a.Attempt, true
	}
	return Attempt{}, false
}

func attemptFrom(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// EffectStarted says that from now on the work may have had its effect: a
// failure that it reports later no longer releases the key, and leaves the
// outcome unknown instead. Call it just before the effect. Outside of work it
// does nothing.
func EffectStarted(ctx context.Context) {
	if a := attemptFrom(ctx); a != nil {
		a.started.Store(true)
	}
}

// DerivedKey returns the key to hand downstream for the part of the operation
// named label. It is the same for every attempt, also after a restart, differs
// from that of any other operation and label, and changes when the key is forgotten on purpose. It depends on the
// scope, the ID, the generation and the label, and on no secret. It has the
// form of a UUID (version 8, RFC 9562 section 5.8). Outside of work it is
// empty.
func DerivedKey(ctx context.Context, label string) string {
	a := attemptFrom(ctx)
	if a == nil {
		return ""
	}
	return derivedKey(a.key, a.generation, label)
}

var unkeyed digester

func derivedKey(key Key, generation int, label string) string {
	d := unkeyed.sum(purposeDerived, key.Scope, key.ID, strconv.Itoa(generation), label)
	d[6] = d[6]&0x0f | 0x80
	d[8] = d[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}
