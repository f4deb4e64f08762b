package messages

import (
	"crypto/md5"
	"encoding/hex"
)

// md5Hex is the checksum that the service sends with a body.
func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}
