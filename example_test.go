package ibid_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

func Example() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	if err != nil {
		log.Fatal(err)
	}
	call := ibid.Call{
		Key:         ibid.Key{Scope: "user 17", ID: "order-42"},
		Fingerprint: engine.Fingerprint([]byte("3000 TWD")),
	}
	for range 3 {
		receipt, outcome, err := ibid.Do(ctx, engine, call, func(ctx context.Context) (string, error) {
			fmt.Println("charging")
			return "receipt 1", nil
		})
		fmt.Println(receipt, outcome.Replayed, err)
	}
	// Output:
	// charging
	// receipt 1 false <nil>
	// receipt 1 true <nil>
	// receipt 1 true <nil>
}

func ExampleFunc() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	if err != nil {
		log.Fatal(err)
	}
	mail := ibid.Func(engine, "welcome mail", func(_ context.Context, address string) (string, error) {
		fmt.Println("sending to", address)
		return "sent", nil
	}, nil)
	for _, address := range []string{"ann@example.com", "bob@example.com", "ann@example.com"} {
		fmt.Println(mail(ctx, address))
	}
	// Output:
	// sending to ann@example.com
	// sent <nil>
	// sending to bob@example.com
	// sent <nil>
	// sent <nil>
}

func ExampleFinal() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	if err != nil {
		log.Fatal(err)
	}
	call := ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "order-43"}}
	for range 2 {
		_, outcome, err := ibid.Do(ctx, engine, call, func(context.Context) (string, error) {
			fmt.Println("asking the bank")
			return "", ibid.Final(errors.New("card was reported stolen"))
		})
		fmt.Println(err, outcome.Replayed)
	}
	// Output:
	// asking the bank
	// card was reported stolen false
	// card was reported stolen true
}

// A charge whose answer was lost: the next caller asks the bank what became of
// it, by the key that the charge was made under.
func ExampleProbeFor() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	if err != nil {
		log.Fatal(err)
	}
	bank := map[string]int{} // idempotency key → amount
	call := ibid.Call{
		Key:    ibid.Key{Scope: "user 17", ID: "order-44"},
		Policy: &ibid.Policy{Takeover: ibid.Probe},
		Probe: ibid.ProbeFor(engine, func(ctx context.Context) (ibid.Found, int, error) {
			amount, ok := bank[ibid.DerivedKey(ctx, "charge")]
			if !ok {
				return ibid.FoundNotDone, 0, nil
			}
			return ibid.FoundDone, amount, nil
		}),
	}
	for range 2 {
		amount, _, err := ibid.Do(ctx, engine, call, func(ctx context.Context) (int, error) {
			bank[ibid.DerivedKey(ctx, "charge")] = 3000
			return 0, context.DeadlineExceeded // the bank's answer was lost
		})
		fmt.Println(amount, errors.Is(err, ibid.ErrUnknown), len(bank))
	}
	// Output:
	// 0 true 1
	// 3000 false 1
}

func ExampleEngine_Resolve() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), nil)
	if err != nil {
		log.Fatal(err)
	}
	call := ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "order-45"}}
	pay := func(context.Context) ([]byte, error) { return nil, context.DeadlineExceeded }
	_, _, err = engine.Do(ctx, call, pay)
	fmt.Println(errors.Is(err, ibid.ErrUnknown))

	// Someone finds the charge in the bank's list.
	op, err := engine.Inspect(ctx, engine.Digest(call.Key))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(op.Record.State)
	err = engine.Resolve(ctx, op.Key, op.Record.Token, ibid.Resolution{Value: []byte("receipt 7")})
	if err != nil {
		log.Fatal(err)
	}
	receipt, _, err := engine.Do(ctx, call, pay)
	fmt.Println(string(receipt), err)
	// Output:
	// true
	// lapsed
	// receipt 7 <nil>
}

func ExamplePolicy_wait() {
	ctx := context.Background()
	engine, err := ibid.New(ctx, new(memstore.Store), &ibid.Options{Policy: ibid.Policy{Wait: time.Minute}})
	if err != nil {
		log.Fatal(err)
	}
	call := ibid.Call{Key: ibid.Key{Scope: "user 17", ID: "order-46"}}
	answers := make(chan string)
	for range 3 {
		go func() {
			receipt, _, _ := ibid.Do(ctx, engine, call, func(context.Context) (string, error) {
				time.Sleep(10 * time.Millisecond)
				fmt.Println("charging")
				return "receipt 1", nil
			})
			answers <- receipt
		}()
	}
	for range 3 {
		fmt.Println(<-answers)
	}
	// Output:
	// charging
	// receipt 1
	// receipt 1
	// receipt 1
}
