package ibid

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Store keeps one record per key and decides, in one atomic step per verb, who
// may run the work. The verbs are all it decides; waiting, renewing, retrying
// and encoding belong to the Engine.
//
// A taken key is an answer, not an error: Begin returns the record that stands.
// An error means that the store could not be asked, or could not understand
// what it found (ErrDamaged); after an error from a write the caller does not
// know whether it was applied, and may repeat the verb with the same token.
//
// Every duration is measured on the store's clock. A store reads and writes on
// the node that decides, never on a replica that may lag.
//
// Package storetest holds the contract as a table of cases.
type Store interface {
	// Begin claims key for claim.Token, or reports what stands there. The
	// claim is the caller's exactly when Record.OwnedBy(claim.Token) holds of
	// the answer.
	//
	// A key is claimed when nothing is kept of it, when it was released, or
	// when its claim lapsed, within what claim.MaxTakeovers and
	// claim.MaxAttempts allow, and never under another fingerprint. Begin
	// repeated with the token that stands grants a fresh lease and counts no
	// attempt: its first reply may have been lost.
	//
	// A Begin that claims nothing writes nothing.
	Begin(ctx context.Context, key Digest, claim Claim) (Record, error)

	// Look reports what stands at key. It claims nothing and changes nothing.
	// A key of which nothing is kept yields the zero Record.
	Look(ctx context.Context, key Digest) (Record, error)

	// Extend lets the claim of token hold for lease from now on, also after it
	// lapsed, as long as nobody took over. A lease of 0 or less gives the claim
	// up: it is lapsed from now on, and is never freed by that.
	//
	// ErrClaimLost reports that token no longer stands.
	Extend(ctx context.Context, key Digest, token Token, lease time.Duration) error

	// Complete records result and ends the claim of token, also after its lease
	// lapsed, as long as nobody took over. Repeated with the same token and the
	// same result it succeeds and changes nothing; with another result it is
	// ErrClaimLost, as it is for a token that no longer stands. The store keeps
	// a copy of result.
	Complete(ctx context.Context, key Digest, token Token, result []byte, keep Keep) error

	// Release says that the attempt of token had no effect: the key may be
	// claimed again at once. Attempt count, fence, generation and steps stay
	// until the window ends; the fingerprint is dropped unless an attempt
	// vanished or a step finished. Releasing a claim that is no longer held, or
	// was completed, changes nothing and is no error.
	Release(ctx context.Context, key Digest, token Token) error
}

// Claim is what a caller asks for in Begin.
type Claim struct {
	// Token is minted by the caller, once per attempt, with NewToken.
	Token Token
	// Fingerprint is what the caller asks for under the key. A record with
	// another fingerprint is never taken over.
	Fingerprint Fingerprint
	// Scope is a digest of the key's scope, for listing and caps.
	Scope Digest
	// Label is shown to operators who list the store; nil keeps none. The
	// engine seals it.
	Label []byte
	// Lease is how long the claim holds without renewal. More than zero.
	Lease time.Duration
	// Window is how long the record outlives its lease while it is not
	// completed. More than zero.
	Window time.Duration
	// MaxTakeovers is how many vanished attempts the key may have had for this
	// claim still to be granted. 0 takes nothing over: a key of which one
	// attempt vanished is never claimed again. Negative has no limit.
	MaxTakeovers int
	// MaxAttempts is how many attempts the key may have in all, this one
	// included. 0 or less has no limit.
	MaxAttempts int
}

// Keep says for how long a completed record is kept, counted from Complete.
type Keep struct {
	// Retain is how long the result is replayed. More than zero.
	Retain time.Duration
	// Remember is how long after that the key is refused as expired instead of
	// run again. 0 or less forgets it when Retain is over.
	Remember time.Duration
}

// State is what a store says of a key, judged by its own clock.
type State uint8

// The states of a key. The package comment shows how they follow each other.
const (
	// Absent means that nothing is kept of the key.
	Absent State = iota
	// InProgress means that a claim holds.
	InProgress
	// Lapsed means that the lease of a claim ended, or that it was given up,
	// and nobody took over.
	Lapsed
	// Released means that the last attempt reported that it had no effect.
	Released
	// Completed means that a result is kept.
	Completed
	// Expired means that the result is no longer kept, and the key still
	// remembered.
	Expired
)

// String returns the state in words.
func (s State) String() string {
	names := [...]string{"absent", "in progress", "lapsed", "released", "completed", "expired"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown state"
}

// Record is what a store keeps of a key, as seen at one moment. Its bytes
// belong to the caller.
type Record struct {
	State State
	// Token is that of the claim that stands or, when the record is completed,
	// of the claim that completed it.
	Token Token
	// Fence grows with every claim of the key, also across windows.
	Fence int64
	// Attempt counts the claims of this window, the one that stands included.
	Attempt int
	// Vanished counts the attempts of this window whose claim was taken over.
	// The attempt of a lapsed claim is counted once it is taken over.
	Vanished int
	// Generation counts how often the key was forgotten on purpose.
	Generation int
	// Fingerprint is that of the request that claimed the key. It is zero in a
	// released record whose attempts all reported.
	Fingerprint Fingerprint
	// Scope and Label are those of the claim.
	Scope Digest
	Label []byte
	// Lease is what is left of the lease; 0 unless in progress.
	Lease time.Duration
	// Window is what is left until the record is no longer kept: of a
	// completed record until its result is no longer replayed, of an expired
	// one until the key is forgotten.
	Window time.Duration
	// Result is set when completed. An empty result is a result.
	Result []byte
	// Steps is what Checkpoint kept last.
	Steps []byte
}

// OwnedBy reports whether token holds the claim that stands.
func (r Record) OwnedBy(token Token) bool {
	return r.State == InProgress && r.Token == token
}

// Token is the secret of one claim: 128 random bits that every write compares.
type Token [16]byte

// NewToken mints a token.
func NewToken() Token {
	var t Token
	rand.Read(t[:]) // never fails
	return t
}

// String returns the token in hexadecimal. A token is a secret only against
// mistakes: it must not be guessed, and may be logged.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// IsZero reports whether the token is unset.
func (t Token) IsZero() bool { return t == Token{} }
