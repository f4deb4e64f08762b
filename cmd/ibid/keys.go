package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
	"github.com/ibid-go/ibid/ibidhttp"
)

// keysCommand holds the commands of an operator. All of them work while
// services use the store.
type keysCommand struct {
	Get     keysGetCommand     `cmd:"" help:"Show what is kept of a key."`
	List    keysListCommand    `cmd:"" help:"List keys."`
	Resolve keysResolveCommand `cmd:"" help:"Say what the outcome of a key was that nobody could tell."`
	Forget  keysForgetCommand  `cmd:"" help:"Drop what is kept of a key: the next request runs again, with derived keys of its own."`
	Requeue keysRequeueCommand `cmd:"" help:"Let the same request run again, with the same derived keys."`
}

// storeFlags name a store that a service uses.
type storeFlags struct {
	Store      string   `required:"" env:"IBID_STORE" placeholder:"URL" help:"Store of the service: sqlite:PATH, redis://…, postgres://…, mysql://… or redis://…+postgres://…."`
	SecretFile string   `env:"IBID_SECRET_FILE" placeholder:"FILE" help:"File with the secret that the service uses, if it has one."`
	SealKey    []string `env:"IBID_SEAL_KEY" placeholder:"ID:FILE" help:"Key that the service seals results with, as 64 hexadecimal digits in a file, if it seals them. May be repeated; the first one seals."`
}

// open returns an engine over the store. The caller closes the store.
func (f *storeFlags) open(ctx context.Context, policy ibid.Policy) (*ibid.Engine, io.Closer, error) {
	secret, err := stores.Secret(f.SecretFile)
	if err != nil {
		return nil, nil, err
	}
	seal, err := stores.SealKeys(f.SealKey)
	if err != nil {
		return nil, nil, err
	}
	store, err := stores.Open(ctx, f.Store, &stores.Options{Existing: true})
	if err != nil {
		return nil, nil, err
	}
	engine, err := ibid.New(ctx, store, &ibid.Options{Secret: secret, Seal: seal, Policy: policy})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return engine, store, nil
}

// keyFlags name one key: by its digest, or by what it is made of.
type keyFlags struct {
	Scope  string `placeholder:"SCOPE" help:"Scope of the key: the user, the tenant."`
	Key    string `placeholder:"KEY" help:"The idempotency key, as the client sends it; without --method and --path, the ID of the key."`
	Method string `placeholder:"METHOD" help:"Method of the request, where the key came over HTTP."`
	Path   string `placeholder:"PATH" help:"Path of the request, where the key came over HTTP."`
	Digest string `placeholder:"HEX" help:"Digest of the key, as in a list or a log, instead of all these."`
}

// digest returns the digest of the key that the flags name.
func (f *keyFlags) digest(engine *ibid.Engine) (ibid.Digest, error) {
	parts := f.Scope != "" || f.Key != "" || f.Method != "" || f.Path != ""
	switch {
	case f.Digest != "" && parts:
		return ibid.Digest{}, errors.New("name the key by --digest, or by --scope and --key, not by both")
	case f.Digest != "":
		return ibid.ParseDigest(f.Digest)
	case f.Scope == "" || f.Key == "":
		return ibid.Digest{}, errors.New("name the key: --scope and --key, with --method and --path where it came over HTTP, or --digest")
	case (f.Method == "") != (f.Path == ""):
		return ibid.Digest{}, errors.New("--method and --path belong together")
	}
	id := f.Key
	if f.Method != "" {
		key, err := ibidhttp.ParseKey(f.Key)
		if err != nil {
			return ibid.Digest{}, fmt.Errorf("--key: %w", err)
		}
		id = ibidhttp.KeyID(f.Method, f.Path, key)
	}
	return engine.Digest(ibid.Key{Scope: f.Scope, ID: id}), nil
}

// oneKey is an opened store with the key that the flags name.
type oneKey struct {
	engine *ibid.Engine
	op     ibid.Operation
	close  io.Closer
}

// openKey returns the key with what is kept of it, also with an error that
// says that it is damaged. The caller closes it.
func openKey(ctx context.Context, sf *storeFlags, kf *keyFlags, policy ibid.Policy) (*oneKey, error) {
	engine, store, err := sf.open(ctx, policy)
	if err != nil {
		return nil, err
	}
	digest, err := kf.digest(engine)
	if err != nil {
		store.Close()
		return nil, err
	}
	op, err := engine.Inspect(ctx, digest)
	if err != nil && !errors.Is(err, ibid.ErrDamaged) {
		store.Close()
		return nil, err
	}
	return &oneKey{engine: engine, op: op, close: store}, err
}

type keysGetCommand struct {
	storeFlags
	keyFlags
	Result bool `help:"Print the result too: what the service answered."`
	JSON   bool `name:"json" help:"Print one JSON object."`
}

// Run implements kong's command.
func (c *keysGetCommand) Run(ctx context.Context, std streams) error {
	k, err := openKey(ctx, &c.storeFlags, &c.keyFlags, ibid.Policy{})
	if k == nil {
		return err
	}
	defer k.close.Close()
	v, write := view(k.op, c.Result), keyView.writeText
	if c.JSON {
		write = keyView.writeJSON
	}
	if written := write(v, std.out); written != nil {
		return written
	}
	if err != nil { // of a damaged result everything else is shown
		return fmt.Errorf("key %s: %w", k.op.Key, err)
	}
	return nil
}

type keysListCommand struct {
	storeFlags
	Scope string   `placeholder:"SCOPE" help:"Only keys of this scope."`
	State []string `enum:"in-progress,lapsed,released,completed,expired" placeholder:"STATE" help:"Only keys in these states: in-progress, lapsed, released, completed, expired. An unknown outcome is lapsed, or released after an attempt vanished."`
	Limit int      `default:"100" help:"How many at most."`
	After string   `placeholder:"HEX" help:"Begin after this digest."`
	JSON  bool     `name:"json" help:"Print one JSON object per line."`
}

// Run implements kong's command.
func (c *keysListCommand) Run(ctx context.Context, std streams) error {
	if c.Limit < 1 {
		return errors.New("--limit must be 1 or more")
	}
	var after ibid.Digest
	if c.After != "" {
		var err error
		if after, err = ibid.ParseDigest(c.After); err != nil {
			return fmt.Errorf("--after: %w", err)
		}
	}
	engine, store, err := c.open(ctx, ibid.Policy{})
	if err != nil {
		return err
	}
	defer store.Close()
	var states []ibid.State
	for _, s := range c.State {
		states = append(states, stateByFlag[s])
	}
	ops, err := engine.List(ctx, c.Scope, states, after, c.Limit+1) // the engine's own record may be among them
	if err != nil {
		return err
	}
	more := len(ops) > c.Limit
	ops = ops[:min(len(ops), c.Limit)]
	if err := writeList(std.out, ops, c.JSON); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(std.err, "there are more: --after %s\n", ops[len(ops)-1].Key)
	}
	return nil
}

// stateByFlag has the states that a list can be asked for.
var stateByFlag = map[string]ibid.State{ // flag → state
	"in-progress": ibid.InProgress,
	"lapsed":      ibid.Lapsed,
	"released":    ibid.Released,
	"completed":   ibid.Completed,
	"expired":     ibid.Expired,
}

type keysForgetCommand struct {
	storeFlags
	keyFlags
	Force bool `help:"Also while a request is in progress: its result is then lost, and the next request runs beside it."`
}

// Run implements kong's command.
func (c *keysForgetCommand) Run(ctx context.Context, std streams) error {
	k, err := openKey(ctx, &c.storeFlags, &c.keyFlags, ibid.Policy{})
	if k == nil {
		return err
	}
	defer k.close.Close()
	switch rec := k.op.Record; {
	case rec.State == ibid.Absent && err == nil:
		return fmt.Errorf("key %s: nothing is kept of it", k.op.Key)
	case rec.State == ibid.InProgress && !c.Force:
		return fmt.Errorf("key %s is in progress, for another %v at least: wait, or --force", k.op.Key, rec.Lease.Round(time.Millisecond))
	}
	if err := k.engine.Forget(ctx, k.op.Key, k.op.Record.Token); err != nil {
		return changed(k.op.Key, err)
	}
	fmt.Fprintf(std.out, "key %s: forgotten, it was %s; the next request runs again, with derived keys of its own\n", k.op.Key, k.op.Record.State)
	if store, ok := k.close.(ibid.Store); ok {
		if l, ok := ibid.As[interface{ ForgottenWithin() time.Duration }](store); ok {
			fmt.Fprintf(std.out, "processes that replayed it lately may do so for another %v\n", l.ForgottenWithin())
		}
	}
	return nil
}

// changed says what a lost claim means to an operator.
func changed(key ibid.Digest, err error) error {
	if errors.Is(err, ibid.ErrClaimLost) {
		return fmt.Errorf("key %s changed since it was read: look at it again", key)
	}
	return fmt.Errorf("key %s: %w", key, err)
}
