package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
)

// The zero value is ready. A key that was completed answers its result.
func Example() {
	ctx := context.Background()
	var store memstore.Store
	key := ibid.Digest{1}
	first := ibid.Claim{Token: ibid.NewToken(), Lease: 30 * time.Second, Window: 24 * time.Hour}

	r, err := store.Begin(ctx, key, first)
	fmt.Println(r.State, r.OwnedBy(first.Token), err)

	err = store.Complete(ctx, key, first.Token, []byte("receipt 17"), ibid.Keep{Retain: 24 * time.Hour})
	fmt.Println(err)

	second := ibid.Claim{Token: ibid.NewToken(), Lease: 30 * time.Second, Window: 24 * time.Hour}
	r, err = store.Begin(ctx, key, second)
	fmt.Printf("%v %v %s %v\n", r.State, r.OwnedBy(second.Token), r.Result, err)
	// Output:
	// in progress true <nil>
	// <nil>
	// completed false receipt 17 <nil>
}

// A store that is full refuses new keys. It evicts nothing: an evicted key is
// work that runs twice.
func ExampleNew() {
	ctx := context.Background()
	store := memstore.New(&memstore.Options{MaxRecords: 1})
	claim := ibid.Claim{Token: ibid.NewToken(), Lease: 30 * time.Second, Window: 24 * time.Hour}

	_, err := store.Begin(ctx, ibid.Digest{1}, claim)
	fmt.Println(err)
	_, err = store.Begin(ctx, ibid.Digest{2}, claim)
	fmt.Println(errors.Is(err, ibid.ErrFull))
	r, err := store.Begin(ctx, ibid.Digest{1}, claim)
	fmt.Println(r.State, err)
	// Output:
	// <nil>
	// true
	// in progress <nil>
}

// Nothing survives the process; an engine that requires more does not start.
func ExampleStore_Describe() {
	d, err := new(memstore.Store).Describe(context.Background())
	fmt.Println(d.Store, "survives", d.Survives, err)
	fmt.Println(d.Advice[ibid.ProcessKill])
	// Output:
	// memory survives nothing <nil>
	// records live in this process's memory: use a store on disk, or a server
}
