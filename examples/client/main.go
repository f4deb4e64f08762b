// Command client pays an order at the payments service of the demo, and tells
// what happened on the way:
//
//	ibid demo --serve 127.0.0.1:8080 &
//	go run ./examples/client http://127.0.0.1:8080 order-1
//
// Run it again: the order has its key from its number, and is charged once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/ibid-go/ibid/ibidclient"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: client URL ORDER")
		os.Exit(2)
	}
	if err := pay(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pay(ctx context.Context, url, order string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client := ibidclient.New(&ibidclient.Options{
		Observe: []func(context.Context, ibidclient.Event){ibidclient.LogTo(log)},
	})

	ctx = ibidclient.WithKey(ctx, ibidclient.KeyFor("order", order))
	body := fmt.Sprintf(`{"order_id":%q,"amount":3000,"currency":"TWD"}`, order)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/payments", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-User-ID", "alice")

	resp, err := client.Do(req)
	if err := ibidclient.Check(resp, err); err != nil {
		var failed *ibidclient.Error
		if errors.As(err, &failed) && failed.Outcome == ibidclient.Unknown {
			return fmt.Errorf("the order may be charged; ask again, under key %s: %w", failed.Key, err)
		}
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	fmt.Printf("%s\nattempts %d, replayed %v, key %s\n",
		answer, ibidclient.AttemptsOf(resp), ibidclient.Replayed(resp), ibidclient.KeyOf(resp))
	return nil
}
