package ibidclient_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/ibidclient"
)

// FuzzKey: a key is refused, or travels unchanged: quoted or bare, it is the same
// key to another client.
func FuzzKey(f *testing.F) {
	for _, k := range []string{"k", `a"b`, `\`, `"quoted"`, " x", "é", "\x00", "\r\n", `"\"`} {
		f.Add(k, true)
		f.Add(k, false)
	}
	f.Fuzz(func(t *testing.T, key string, quoted bool) {
		opts := ibidclient.IETF()
		opts.Quote = quoted
		base := script(step{status: 200})
		resp, err := client(base, opts).Do(post(t, ibidclient.WithKey(t.Context(), key), ""))
		if err != nil {
			if len(base.attempts()) != 0 {
				t.Fatal("refused after sending")
			}
			return
		}
		resp.Body.Close()
		sent := base.attempts()[0].header["Idempotency-Key"]
		if len(sent) != 1 || ibidclient.KeyOf(resp) != key {
			t.Fatalf("sent %q as %q", key, sent)
		}
		req := post(t, t.Context(), "")
		req.Header.Set("Idempotency-Key", sent[0])
		resp, err = client(base, nil).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := ibidclient.KeyOf(resp); got != key {
			t.Fatalf("%q came back as %q", key, got)
		}
	})
}

// FuzzHeaders: whatever a server says, the operation ends within its bounds.
func FuzzHeaders(f *testing.F) {
	f.Add("2", "10", 503, `{"type":"x"}`)
	f.Add("Sat, 01 Jan 2000 00:00:11 GMT", "-1", 202, `{"error":{"type":"idempotency_error"}}`)
	f.Add("99999999999999999999", "18446744073709551615", 409, `{"details":[{"issue":"x"}]}`)
	f.Add("-9223372036854775808", "9223372036", 500, `{`)
	f.Fuzz(func(t *testing.T, after, expires string, status int, body string) {
		if status < 200 || status > 599 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			base := script(step{status: status, header: "Retry-After: " + after + "\nIdempotency-Expires: " + expires + "\nContent-Type: application/json", body: body})
			start := time.Now()
			resp, err := client(base, nil).Do(post(t, t.Context(), ""))
			ibidclient.Check(resp, err)
			if resp != nil {
				resp.Body.Close()
			}
			if n, took := len(base.attempts()), time.Since(start); n > 5 || took > ibidclient.DefaultTotalTime {
				t.Fatalf("%d attempts in %v", n, took)
			}
		})
	})
}

// FuzzFileJournal: a file that somebody else wrote is damage, and no key.
func FuzzFileJournal(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add([]byte("{\"version\":1,\"key\":\"k\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.entry"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := ibidclient.NewFileJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := j.Pending(t.Context()); err == nil || len(p) != 0 {
			t.Fatalf("%+v, %v", p, err)
		}
	})
}
