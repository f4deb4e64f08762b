package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
	"github.com/ibid-go/ibid/storetest"
)

// storeCommand holds the commands about stores.
type storeCommand struct {
	Check storeCheckCommand `cmd:"" help:"Put a kind of store through the contract, and say what it survives."`
}

type storeCheckCommand struct {
	Store   string `required:"" env:"IBID_STORE" placeholder:"URL" help:"memory: or sqlite:DIR. Every case makes an empty store of its own, in DIR, and removes it."`
	Verbose bool   `short:"v" help:"Also name the cases that hold, and say why each matters."`
}
