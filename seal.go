package ibid

// SealKey is one key for results and labels at rest.
type SealKey struct {
	// ID names the key in what it sealed. It must differ from that of every other key
	// that was ever used with the store.
	ID uint32
	// Key has 32 random bytes (AES-256-GCM).
	Key []byte
}

type prepared struct{}
