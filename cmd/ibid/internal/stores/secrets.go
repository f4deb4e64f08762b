package stores

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ibid-go/ibid"
)

// Secret reads a secret from the file at path: all of it but the end of the
// line. An empty path is no secret.
func Secret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	secret := strings.TrimRight(string(b), "\r\n")
	if len(secret) < 16 {
		return nil, fmt.Errorf("the secret in %s has %d bytes: it must have at least 16", path, len(secret))
	}
	return []byte(secret), nil
}

// SealKeys reads keys for results at rest. Each is named ID:FILE; the file
// holds 32 bytes as 64 hexadecimal digits. The first key seals.
func SealKeys(names []string) ([]ibid.SealKey, error) {
	var keys []ibid.SealKey
	for _, name := range names {
		number, path, ok := strings.Cut(name, ":")
		id, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			return nil, fmt.Errorf("seal key %q: name it ID:FILE, where ID is a number", name)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read seal key %d: %w", id, err)
		}
		key, err := hex.DecodeString(strings.TrimSpace(string(b)))
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("seal key %d in %s: it must be 64 hexadecimal digits", id, path)
		}
		keys = append(keys, ibid.SealKey{ID: uint32(id), Key: key})
	}
	return keys, nil
}
