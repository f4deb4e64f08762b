package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/steps"
)

// recoverCommand is a completer outside of the service: it asks as the client
// would have, and the service decides.
type recoverCommand struct {
	storeFlags
	To          string        `required:"" placeholder:"URL" help:"Service that takes the requests."`
	Header      []string      `placeholder:"NAME: VALUE" sep:"none" help:"Header to send with every request, such as credentials, which are never kept. May be repeated."`
	Every       time.Duration `placeholder:"DURATION" help:"Go on for ever, and look this often. Without it, look once."`
	MaxAttempts int           `default:"10" help:"Attempts that an operation may have had, and still be sent again."`
	Released    bool          `help:"Send also what an attempt released after a step had begun."`
	Timeout     time.Duration `default:"1m" help:"How long one request may take."`
}

// Run implements kong's command.
func (c *recoverCommand) Run(ctx context.Context, std streams) error {
	to, err := url.Parse(c.To)
	if err != nil || to.Host == "" {
		return fmt.Errorf("--to %q: give the address of the service, as in http://127.0.0.1:8080", c.To)
	}
	extra, err := headers(c.Header)
	if err != nil {
		return err
	}
	engine, closer, err := c.open(ctx, ibid.Policy{})
	if err != nil {
		return err
	}
	defer closer.Close()
	s := sender{engine: engine, to: to, extra: extra, client: &http.Client{Timeout: c.Timeout}}
	var mu sync.Mutex // a line is whole
	opts := &steps.RecoverOptions{
		Every: c.Every, MaxAttempts: c.MaxAttempts, Released: c.Released,
		Observe: func(_ context.Context, r steps.Redriven) {
			mu.Lock()
			defer mu.Unlock()
			said := "finished"
			if r.Err != nil {
				said = trimmed(r.Err)
			}
			fmt.Fprintf(std.out, "%v  attempt %d  %s: %s\n", r.Key, r.Attempt, r.Name, said)
		},
	}
	handlers := map[string]steps.Handler{"": s.send}
	if c.Every > 0 {
		err = steps.Recover(ctx, engine, handlers, opts)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return err
	}
	pass, err := steps.RecoverOnce(ctx, engine, handlers, opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%d finished, %d failed, %d unknown\n", pass.Finished, pass.Failed, pass.Unknown)
	if pass.Failed+pass.Unknown > 0 {
		return fmt.Errorf("%d operations are not finished", pass.Failed+pass.Unknown)
	}
	return nil
}

func headers(lines []string) (http.Header, error) {
	h := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("--header %q: write NAME: VALUE", line)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, nil
}

// sender sends kept requests to a service.
type sender struct {
	engine *ibid.Engine
	to     *url.URL
	extra  http.Header
	client *http.Client
}

// send asks for r again. The record says whether it is finished, and no status
// does: a proxy in between may have answered.
func (s *sender) send(ctx context.Context, r steps.Request) error {
	if r.Method == "" {
		return fmt.Errorf("%w: no HTTP request was kept", ibid.ErrInvalid)
	}
	path, err := url.Parse(r.Path)
	if err != nil {
		return err
	}
	to := *s.to
	to.Path = strings.TrimSuffix(to.Path, "/") + path.Path
	to.RawQuery = path.RawQuery
	req, err := http.NewRequestWithContext(ctx, r.Method, to.String(), bytes.NewReader(r.Body))
	if err != nil {
		return err
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	for name, values := range s.extra {
		req.Header[name] = values
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	err = errors.Join(err, resp.Body.Close())
	op, lookErr := s.engine.Inspect(ctx, s.engine.Digest(r.Call.Key))
	switch {
	case lookErr != nil:
		return lookErr
	case op.Record.State == ibid.Completed:
		return nil
	case op.Record.State == ibid.InProgress:
		return ibid.ErrInProgress
	}
	return errors.Join(fmt.Errorf("the service answered %s, and the operation is %s", resp.Status, op.Record.State), err)
}
