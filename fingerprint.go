package ibid

import "encoding/hex"

// Fingerprint is a digest of a request. Its first byte is the version of the
// algorithm, the others are 248 bits of HMAC-SHA-256, or of SHA-256 when the
// engine has no secret. The zero Fingerprint stands for "none".
type Fingerprint [32]byte

// fingerprintVersion is the version that Engine.Fingerprint writes.
const fingerprintVersion = 1

// Version returns the version of the algorithm; 0 for the zero Fingerprint.
func (f Fingerprint) Version() int { return int(f[0]) }

// String returns the fingerprint in hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Fingerprint digests what makes a request this request and no other. Different
// lists of parts have different fingerprints: ("a", "bc") is not ("ab", "c").
func (e *Engine) Fingerprint(parts ...[]byte) Fingerprint {
	f := Fingerprint(e.digests.sumBytes(purposeFingerprint, parts...))
	f[0] = fingerprintVersion
	return f
}
