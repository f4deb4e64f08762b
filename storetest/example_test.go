package storetest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/storetest"
)

// forgetful keeps no results.
type forgetful struct{ ibid.Store }

func (f forgetful) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	return f.Store.Complete(ctx, key, token, nil, keep)
}

// Each case is a value: a program chooses those it wants to see.
func ExampleCases() {
	target := storetest.Target{
		Open: func(context.Context) (ibid.Store, func() error, error) {
			return forgetful{memstore.New(nil)}, nil, nil
		},
	}
	for _, c := range storetest.Cases() {
		switch c.Name {
		case "the first caller owns the key", "a completed key answers its result", "two handles see one store":
			err := c.Check(context.Background(), target)
			var needs storetest.Needs
			switch {
			case errors.As(err, &needs):
				fmt.Printf("?  %s: %v\n", c.Name, needs)
			case err != nil:
				fmt.Printf("no %s: %v\n   why it matters: %s\n", c.Name, err, c.Why)
			default:
				fmt.Printf("ok %s\n", c.Name)
			}
		}
	}
	// Output:
	// ok the first caller owns the key
	// no a completed key answers its result: the result is ""
	//    why it matters: the replay is what the store is for
	// ?  two handles see one store: needs Target.Second
}
