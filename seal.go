package ibid

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// SealKey is one key for results and labels at rest.
type SealKey struct {
	// ID names the key in what it sealed. It must differ from that of every
	// other key that was ever used with the store.
	ID uint32
	// Key has 32 random bytes (AES-256-GCM).
	Key []byte
}

// A result as a store keeps it, in the clear or sealed:
//
//	1, kind, payload, CRC-32C of all of the above combined with the digest (4 bytes)
//	2, key ID (4 bytes), nonce (12), AES-256-GCM of kind and payload, tag (16)
//
// The checksum covers the key's digest, and so does the tag, beside the format
// and the purpose: a result that was altered, or moved to another key, is
// damaged.
const (
	formatClear  = 1
	formatSealed = 2
)

// kind says what a result's payload is.
type kind byte

const (
	kindValue   kind = 1 // what the work returned
	kindFinal   kind = 2 // the text of an error marked with Final
	kindNotKept kind = 3 // nothing: the work completed, its result is not kept
)

// sealer turns payloads into what a store keeps, and back.
type sealer struct {
	id    uint32                 // of the key that seals
	aeads map[uint32]cipher.AEAD // key ID → key; nil seals nothing
}

// newSealer returns the sealer of keys, the first of which seals.
func newSealer(keys []SealKey) (s sealer, err error) {
	for i, k := range keys {
		if len(k.Key) != 32 {
			return s, fmt.Errorf("%w: Options.Seal[%d].Key has %d bytes: give 32 random ones", ErrInvalid, i, len(k.Key))
		}
		if _, twice := s.aeads[k.ID]; twice {
			return s, fmt.Errorf("%w: Options.Seal[%d].ID %d stands twice: give every key its own", ErrInvalid, i, k.ID)
		}
		block, err := aes.NewCipher(k.Key)
		if err != nil {
			return s, fmt.Errorf("%w: Options.Seal[%d].Key: %w", ErrInvalid, i, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return s, fmt.Errorf("%w: Options.Seal[%d].Key: %w", ErrInvalid, i, err)
		}
		if i == 0 {
			s.id = k.ID
			s.aeads = make(map[uint32]cipher.AEAD, len(keys))
		}
		s.aeads[k.ID] = aead
	}
	return s, nil
}

// seal returns the bytes that a store keeps of a result under key.
func (s sealer) seal(key Digest, k kind, payload []byte) []byte {
	return s.sealAs("result", key, k, payload)
}

// open returns what seal was given. ErrDamaged reports bytes that seal has not
// made under key, or whose key is not known.
func (s sealer) open(key Digest, b []byte) (kind, []byte, error) {
	return s.openAs("result", key, b)
}

func (s sealer) sealAs(purpose string, key Digest, k kind, payload []byte) []byte {
	if s.aeads == nil {
		b := make([]byte, 0, 2+len(payload)+4)
		b = append(b, formatClear, byte(k))
		b = append(b, payload...)
		return binary.BigEndian.AppendUint32(b, clearChecksum(key, b))
	}
	aead := s.aeads[s.id]
	b := make([]byte, 0, 5+1+len(payload)+aead.Overhead())
	b = append(b, formatSealed)
	b = binary.BigEndian.AppendUint32(b, s.id)
	plain := make([]byte, 0, 1+len(payload))
	plain = append(plain, byte(k))
	plain = append(plain, payload...)
	return aead.Seal(b, nil, plain, sealContext(key, purpose, b))
}

func (s sealer) openAs(purpose string, key Digest, b []byte) (kind, []byte, error) {
	if len(b) == 0 {
		return 0, nil, fmt.Errorf("%w: %s is empty", ErrDamaged, purpose)
	}
	var plain []byte
	switch b[0] {
	case formatClear:
		if len(b) < 6 || clearChecksum(key, b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
			return 0, nil, fmt.Errorf("%w: checksum of the %s", ErrDamaged, purpose)
		}
		plain = b[1 : len(b)-4]
	case formatSealed:
		var err error
		if plain, err = s.unseal(key, purpose, b); err != nil {
			return 0, nil, err
		}
	default:
		return 0, nil, fmt.Errorf("%w: %s format %d, this program knows %d and %d", ErrDamaged, purpose, b[0], formatClear, formatSealed)
	}
	if len(plain) == 0 || plain[0] < byte(kindValue) || plain[0] > byte(kindNotKept) {
		return 0, nil, fmt.Errorf("%w: kind of the %s", ErrDamaged, purpose)
	}
	return kind(plain[0]), plain[1:], nil
}

func (s sealer) unseal(key Digest, purpose string, b []byte) ([]byte, error) {
	if len(b) < 5 {
		return nil, fmt.Errorf("%w: sealed %s is cut short", ErrDamaged, purpose)
	}
	id := binary.BigEndian.Uint32(b[1:5])
	aead, ok := s.aeads[id]
	if !ok {
		return nil, fmt.Errorf("%w: %s was sealed with key %d, which is not among Options.Seal", ErrDamaged, purpose, id)
	}
	plain, err := aead.Open(nil, nil, b[5:], sealContext(key, purpose, b[:5]))
	if err != nil {
		return nil, fmt.Errorf("%w: sealed %s does not open", ErrDamaged, purpose)
	}
	return plain, nil
}

// sealContext is what a seal is bound to.
func sealContext(key Digest, purpose string, head []byte) []byte {
	b := make([]byte, 0, len(purpose)+len(head)+len(key))
	b = append(b, purpose...)
	b = append(b, head...)
	return append(b, key[:]...)
}

// sealLabel returns label as a store keeps it; nil when nothing seals.
func (s sealer) sealLabel(key Digest, label string) []byte {
	if label == "" || s.aeads == nil {
		return nil
	}
	b := append(make([]byte, 0, 5+len(label)+28), formatSealed)
	b = binary.BigEndian.AppendUint32(b, s.id)
	return s.aeads[s.id].Seal(b, nil, []byte(label), sealContext(key, "label", b))
}

// openLabel returns what sealLabel was given; "" for a label that does not open.
func (s sealer) openLabel(key Digest, b []byte) string {
	if len(b) == 0 {
		return ""
	}
	label, err := s.unseal(key, "label", b)
	if err != nil {
		return ""
	}
	return string(label)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// clearChecksum is the CRC-32C of b, combined with key.
func clearChecksum(key Digest, b []byte) uint32 {
	return crc32.Checksum(b, castagnoli) ^ key.Fold()
}
