package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// keysResolveCommand is the only way out of an unknown outcome where the
// policy is to refuse: somebody looked at what happened, and says so.
type keysResolveCommand struct {
	storeFlags
	keyFlags
	NotDone bool     `group:"Outcome" help:"The effect did not happen and no longer can: the next request runs."`
	Status  int      `group:"Outcome" placeholder:"CODE" help:"The effect happened: answer every later request with this status."`
	Body    string   `group:"Outcome" placeholder:"TEXT" help:"Body of the answer; @FILE reads it from a file."`
	Header  []string `group:"Outcome" sep:"none" placeholder:"NAME: VALUE" help:"Header of the answer. May be repeated."`
	Value   *string  `group:"Outcome" placeholder:"TEXT" help:"The effect happened: the result of a function, as its codec writes it; @FILE reads it from a file."`
	Failure string   `group:"Outcome" placeholder:"TEXT" help:"The operation failed for good: the text of the error that every later call gets."`

	Retain   time.Duration `default:"24h" help:"How long the outcome is replayed."`
	Remember time.Duration `help:"How long after that the key is refused as expired. Default 0s."`
}

// Run implements kong's command.
func (c *keysResolveCommand) Run(ctx context.Context, std streams) error {
	resolution, what, err := c.resolution()
	if err != nil {
		return err
	}
	// The policy only has to hold together: no work runs here.
	policy := ibid.Policy{Retain: c.Retain, Remember: c.Remember, MaxRun: c.Retain / 2, Lease: min(c.Retain/2, ibid.DefaultLease)}
	k, err := openKey(ctx, &c.storeFlags, &c.keyFlags, policy)
	if k == nil {
		return err
	}
	defer k.close.Close()
	if err != nil {
		return fmt.Errorf("key %s: %w", k.op.Key, err)
	}
	rec := k.op.Record
	switch rec.State {
	case ibid.Absent:
		return fmt.Errorf("key %s: nothing is kept of it: check --scope, --key, --method, --path and --secret-file", k.op.Key)
	case ibid.InProgress:
		return fmt.Errorf("key %s is in progress, for another %v at least: nothing is unknown yet", k.op.Key, rec.Lease.Round(time.Millisecond))
	case ibid.Completed, ibid.Expired:
		return fmt.Errorf("key %s is %s: nothing is unknown", k.op.Key, rec.State)
	case ibid.Released:
		if rec.Vanished == 0 {
			return fmt.Errorf("key %s is released: its attempts reported that they had no effect, and nothing is unknown", k.op.Key)
		}
	}
	if err := k.engine.Resolve(ctx, k.op.Key, rec.Token, resolution); err != nil {
		return changed(k.op.Key, err)
	}
	fmt.Fprintf(std.out, "key %s: resolved, %s\n", k.op.Key, what)
	return nil
}

// resolution returns what the flags say, and in words what follows from it.
func (c *keysResolveCommand) resolution() (ibid.Resolution, string, error) {
	given := 0
	for _, g := range []bool{c.NotDone, c.Status != 0, c.Value != nil, c.Failure != ""} {
		if g {
			given++
		}
	}
	switch {
	case given != 1:
		return ibid.Resolution{}, "", errors.New("say what the outcome was, with one of --not-done, --status, --value and --failure")
	case c.Status == 0 && (c.Body != "" || len(c.Header) > 0):
		return ibid.Resolution{}, "", errors.New("--body and --header belong to --status")
	case c.NotDone:
		return ibid.Resolution{NotDone: true}, "the next request runs", nil
	case c.Failure != "":
		return ibid.Resolution{Failure: c.Failure}, "every later call gets the failure", nil
	case c.Value != nil:
		value, err := textOrFile(*c.Value)
		return ibid.Resolution{Value: value}, "every later call gets the result", err
	}
	a := ibidhttp.Answer{Status: c.Status, Header: http.Header{}}
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return ibid.Resolution{}, "", fmt.Errorf("--header %q is not NAME: VALUE", line)
		}
		a.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	var err error
	if a.Body, err = textOrFile(c.Body); err != nil {
		return ibid.Resolution{}, "", err
	}
	value, err := a.Encode()
	return ibid.Resolution{Value: value}, fmt.Sprintf("every later request is answered %d", c.Status), err
}

// textOrFile returns s, or what is in the file when it is @FILE.
func textOrFile(s string) ([]byte, error) {
	path, ok := strings.CutPrefix(s, "@")
	if !ok {
		return bytes.Clone([]byte(s)), nil
	}
	return os.ReadFile(path)
}
