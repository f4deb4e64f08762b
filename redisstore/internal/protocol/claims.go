package protocol

import (
	"sync"

	"github.com/ibid-go/ibid"
)

// claims are the bytes of claims as this process wrote them. Complete offers
// them to the server, which has less to do where they still stand; nothing else
// rests on them, and one that was dropped costs a little speed.
type claims struct {
	mu         sync.Mutex
	young, old map[ibid.Token][]byte // token → record as written
}

// claimsKept bounds each of the two generations.
const claimsKept = 8192

func (c *claims) put(token ibid.Token, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= claimsKept {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = make(map[ibid.Token][]byte)
	}
	c.young[token] = b
}

// take returns what was put under token, once; nil if it was dropped.
func (c *claims) take(token ibid.Token) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range [...]map[ibid.Token][]byte{c.young, c.old} {
		if b, ok := m[token]; ok {
			delete(m, token)
			return b
		}
	}
	return nil
}
