package layered

import (
	"context"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// Requeue implements ibid.Requeuer, and drops the copies as Forget does.
// ErrInvalid reports a store that decides and cannot requeue.
func (i *inspected) Requeue(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	store, ok := ibid.As[ibid.Requeuer](i.Store)
	if !ok {
		return fmt.Errorf("%w: the store that decides cannot requeue", ibid.ErrInvalid)
	}
	err := store.Requeue(ctx, key, token, window)
	i.layers.memory.drop(key)
	if i.layers.front != nil {
		i.layers.front.forget(ctx, key)
	}
	return err
}
