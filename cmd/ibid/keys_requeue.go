package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

type keysRequeueCommand struct {
	storeFlags
	keyFlags
}

// Run implements kong's command.
func (c *keysRequeueCommand) Run(ctx context.Context, std streams) error {
	k, err := openKey(ctx, &c.storeFlags, &c.keyFlags, ibid.Policy{})
	if k == nil {
		return err
	}
	defer k.close.Close()
	rec := k.op.Record
	if rec.State == ibid.Absent && err == nil {
		return fmt.Errorf("key %s: nothing is kept of it", k.op.Key)
	}
	err = k.engine.Requeue(ctx, k.op.Key, rec.Token)
	switch {
	case errors.Is(err, ibid.ErrInProgress):
		return fmt.Errorf("key %s is in progress, for another %v at least: wait", k.op.Key, rec.Lease.Round(time.Millisecond))
	case err != nil:
		return changed(k.op.Key, err)
	}
	fmt.Fprintf(std.out, "key %s: requeued, it was %s; the same request runs again, with the same derived keys\n", k.op.Key, rec.State)
	return nil
}
