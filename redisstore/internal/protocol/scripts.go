package protocol

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// Script is a program that the server runs in one step.
type Script struct {
	Text string
	SHA1 string // what the server knows it by
}

func newScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Text: text, SHA1: hex.EncodeToString(sum[:])}
}

//go:embed scripts/swap.lua
var swapLua string

//go:embed scripts/look.lua
var lookLua string

//go:embed scripts/complete.lua
var completeLua string

//go:embed scripts/release.lua
var releaseLua string

//go:embed scripts/extend.lua
var extendLua string

//go:embed scripts/checkpoint.lua
var checkpointLua string

//go:embed scripts/watch.lua
var watchLua string

//go:embed scripts/peek.lua
var peekLua string

var (
	swap       = newScript(swapLua)
	look       = newScript(lookLua)
	complete   = newScript(completeLua)
	release    = newScript(releaseLua)
	extend     = newScript(extendLua)
	checkpoint = newScript(checkpointLua)
	watching   = newScript(watchLua)
	peek       = newScript(peekLua)
)
