package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// payCommand pays one order as a client of the payments service does. The tour
// runs it as a process of its own, to kill it.
type payCommand struct {
	URL     string        `arg:"" help:"Where the payments service listens."`
	Order   string        `arg:"" help:"The order to pay."`
	User    string        `default:"alice" help:"Who pays."`
	Journal string        `placeholder:"DIR" help:"Folder that keeps the keys of what was not answered. Default: none."`
	Hold    time.Duration `help:"How long the service is asked to wait between the charge and the answer."`
}

// Run implements kong's command.
func (c *payCommand) Run(ctx context.Context, std streams) error {
	opts := &ibidclient.Options{}
	if c.Journal != "" {
		journal, err := ibidclient.NewFileJournal(c.Journal)
		if err != nil {
			return err
		}
		opts.Journal = journal
		// An earlier process may have died between sending and the answer: what
		// it asked for is asked for again, under its key.
		left, err := journal.Pending(ctx)
		if err != nil {
			return err
		}
		for _, e := range left {
			if e.Label == c.Order {
				fmt.Fprintf(std.out, "found the key of an earlier process, %v old\n", e.Age.Round(10*time.Millisecond))
				ctx = ibidclient.WithKey(ctx, e.Key)
			}
		}
	}
	ctx = ibidclient.WithLabel(ctx, c.Order)
	body := fmt.Sprintf(`{"order_id":%q,"amount":3000,"currency":"TWD"}`, c.Order)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/payments", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-User-ID", c.User)
	if c.Hold > 0 {
		req.Header.Set("Demo-Hold", c.Hold.String())
	}
	resp, err := ibidclient.New(opts).Do(req)
	if err := ibidclient.Check(resp, err); err != nil {
		return err
	}
	defer resp.Body.Close() // only now does the journal forget the key
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	kind := "first"
	if ibidclient.Replayed(resp) {
		kind = "replayed"
	}
	fmt.Fprintf(std.out, "%d %s, sent %d times  %s\n", resp.StatusCode, kind, ibidclient.AttemptsOf(resp), answer)
	return nil
}
