package ibidclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// forgetful returns a server that charges, and whose first answers get lost.
func forgetful(lost int) *httptest.Server {
	kept := make(map[string]string) // key → answer
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if kept[key] == "" {
			kept[key] = fmt.Sprint("charge ", len(kept)+1)
		} else {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		if lost--; lost >= 0 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		io.WriteString(w, kept[key])
	}))
}

func Example() {
	server := forgetful(2)
	defer server.Close()
	client := ibidclient.New(nil)

	ctx := ibidclient.WithKey(context.Background(), ibidclient.KeyFor("order", "17"))
	req, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("amount=5"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err := ibidclient.Check(resp, err); err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	fmt.Println(string(answer), err)
	fmt.Println("attempts:", ibidclient.AttemptsOf(resp), "replayed:", ibidclient.Replayed(resp))
	// Output:
	// charge 1 <nil>
	// attempts: 3 replayed: true
}

func ExampleCheck() {
	server := forgetful(100)
	defer server.Close()
	client := ibidclient.New(&ibidclient.Options{Attempts: 2, BaseDelay: time.Millisecond})

	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("amount=5"))
	var failed *ibidclient.Error
	if errors.As(ibidclient.Check(resp, err), &failed) {
		switch failed.Outcome {
		case ibidclient.NotExecuted:
			fmt.Println("nothing happened")
		case ibidclient.Unknown:
			fmt.Println("it may have happened; ask again under the same key:", failed.Key != "")
		case ibidclient.Refused:
			fmt.Println("the server said no:", failed.Status)
		case ibidclient.Completed:
			fmt.Println("it happened; the answer is gone")
		}
	}
	// Output: it may have happened; ask again under the same key: true
}

// A process that dies between send and answer leaves its key in the journal.
// The next one asks again, under that key.
func ExampleFileJournal() {
	server := forgetful(1)
	defer server.Close()
	dir, err := os.MkdirTemp("", "journal-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	pay := func(ctx context.Context, client *http.Client, order string) (string, error) {
		req, err := http.NewRequestWithContext(ibidclient.WithLabel(ctx, order), "POST", server.URL, strings.NewReader(order))
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err := ibidclient.Check(resp, err); err != nil {
			return "", err
		}
		defer resp.Body.Close() // the journal forgets the key here: keep the answer before
		answer, err := io.ReadAll(resp.Body)
		return string(answer), err
	}

	// The first process gets no answer.
	journal, err := ibidclient.NewFileJournal(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = pay(ctx, ibidclient.New(&ibidclient.Options{Journal: journal, Attempts: 1}), "order 17")
	fmt.Println("answered:", err == nil)

	// The second process begins with what is pending.
	journal, err = ibidclient.NewFileJournal(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := ibidclient.New(&ibidclient.Options{Journal: journal})
	pending, err := journal.Pending(ctx)
	for _, e := range pending {
		answer, err := pay(ibidclient.WithKey(ctx, e.Key), client, e.Label)
		fmt.Println(e.Label, "is", answer, err)
	}
	pending, err = journal.Pending(ctx)
	fmt.Println("pending:", len(pending), err)
	// Output:
	// answered: false
	// order 17 is charge 1 <nil>
	// pending: 0 <nil>
}
