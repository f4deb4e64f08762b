package stores

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/layered"
)

// split takes an address with a front apart: redis://…+postgres://….
func split(address string) (front, decides string, ok bool) {
	if !strings.HasPrefix(address, "redis") && !strings.HasPrefix(address, "valkey") {
		return "", "", false
	}
	for _, kind := range []string{"postgres:", "postgresql:", "mysql:", "mariadb:", "sqlite:"} {
		if i := strings.Index(address, "+"+kind); i >= 0 {
			return address[:i], address[i+1:], true
		}
	}
	return "", "", false
}

// openLayered opens the store that decides, and a front that may come later:
// one that is down costs speed, and must stop no service from starting.
func openLayered(ctx context.Context, address, frontAddress, decidesAddress string, existing bool) (*Opened, error) {
	decides, err := Open(ctx, decidesAddress, &Options{Existing: existing})
	if err != nil {
		return nil, err
	}
	f, err := openFront(frontAddress)
	if err != nil {
		return nil, errors.Join(err, decides.Close())
	}
	store := layered.New(decides.Store, &layered.Options{Front: f, Name: Shown(decidesAddress)})
	return &Opened{Store: store, URL: address, Path: decides.Path, close: func() error {
		return errors.Join(f.close(), decides.Close())
	}}, nil
}

// lateFront is a Redis store that connects when it can.
type lateFront struct {
	opened atomic.Pointer[Opened] // nil until it is connected
	cancel context.CancelFunc
	ended  chan struct{}
}

func openFront(address string) (*lateFront, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &lateFront{cancel: cancel, ended: make(chan struct{})}
	opened, err := openRedis(address)
	switch {
	case errors.Is(err, errAddress):
		cancel()
		return nil, err
	case err != nil:
		go f.connect(ctx, address) // close ends it, and waits
		return f, nil
	}
	f.opened.Store(opened)
	close(f.ended)
	return f, nil
}

func (f *lateFront) connect(ctx context.Context, address string) {
	defer close(f.ended)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if opened, err := openRedis(address); err == nil {
			f.opened.Store(opened)
			return
		}
	}
}

func (f *lateFront) close() error {
	f.cancel()
	<-f.ended
	if opened := f.opened.Load(); opened != nil {
		return opened.Close()
	}
	return nil
}

var errNotThere = errors.New("the front is not connected yet")

func (f *lateFront) store() (ibid.Store, error) {
	if opened := f.opened.Load(); opened != nil {
		return opened.Store, nil
	}
	return nil, errNotThere
}

// Unwrap returns the Redis store; nil until it is connected.
func (f *lateFront) Unwrap() ibid.Store {
	s, _ := f.store()
	return s
}

// Begin implements ibid.Store.
func (f *lateFront) Begin(ctx context.Context, key ibid.Digest, claim ibid.Claim) (ibid.Record, error) {
	s, err := f.store()
	if err != nil {
		return ibid.Record{}, err
	}
	return s.Begin(ctx, key, claim)
}

// Look implements ibid.Store.
func (f *lateFront) Look(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	s, err := f.store()
	if err != nil {
		return ibid.Record{}, err
	}
	return s.Look(ctx, key)
}

// Extend implements ibid.Store.
func (f *lateFront) Extend(ctx context.Context, key ibid.Digest, token ibid.Token, lease time.Duration) error {
	s, err := f.store()
	if err != nil {
		return err
	}
	return s.Extend(ctx, key, token, lease)
}

// Complete implements ibid.Store.
func (f *lateFront) Complete(ctx context.Context, key ibid.Digest, token ibid.Token, result []byte, keep ibid.Keep) error {
	s, err := f.store()
	if err != nil {
		return err
	}
	return s.Complete(ctx, key, token, result, keep)
}

// Release implements ibid.Store.
func (f *lateFront) Release(ctx context.Context, key ibid.Digest, token ibid.Token) error {
	s, err := f.store()
	if err != nil {
		return err
	}
	return s.Release(ctx, key, token)
}
