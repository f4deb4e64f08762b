package steps_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/memstore"
	"github.com/ibid-go/ibid/steps"
)

func TestTransportSetsTheDerivedKey(t *testing.T) {
	t.Parallel()
	var seen []string // key of every request that arrived
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Idempotency-Key"))
	}))
	defer server.Close()
	client := &http.Client{Transport: &steps.Transport{}}
	send := func(ctx context.Context, method, path, key string) error {
		req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			return err
		}
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := client.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	e := newEngine(t, new(memstore.Store))
	_, _, err := steps.Run(t.Context(), e, order, func(ctx context.Context, op *steps.Op) (int, error) {
		if err := send(ctx, "POST", "/outside", ""); err != nil {
			return 0, err
		}
		return steps.Step(ctx, op, "charge", func(ctx context.Context, info steps.StepInfo) (int, error) {
			if got, ok := steps.InfoFrom(ctx); !ok || got != info || info.Key != ibid.DerivedKey(ctx, "charge") || info.Key != op.DerivedKey(ctx, "charge") {
				t.Errorf("%+v in the context, want %+v", got, info)
			}
			for _, row := range []struct {
				method, path, key, want, why string
			}{
				{"POST", "/charges", "", "POST /charges " + info.Key, "the bank could not deduplicate"},
				{"POST", "/charges", "", "POST /charges " + info.Key, "a retry is the same call"},
				{"GET", "/charges/1", "", "GET /charges/1 ", "reading needs no key"},
				{"POST", "/refunds", "mine", "POST /refunds mine", "the program's own key is the program's"},
				{"POST", "/refunds", "", "", "a second call with the key of the first would be answered as the first"},
				{"DELETE", "/charges", "", "", "so would another method"},
			} {
				seen = nil
				err := send(ctx, row.method, row.path, row.key)
				if got := strings.Join(seen, ", "); got != row.want || (err != nil) != (row.want == "") {
					t.Errorf("%s %s: %q, %v, want %q: %s", row.method, row.path, got, err, row.want, row.why)
				}
			}
			return 1, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Calls outside of a step have no key: the operation may make several.
func TestTransportLeavesOtherCallsAlone(t *testing.T) {
	t.Parallel()
	key := "unset"
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { key = r.Header.Get("Idempotency-Key") }))
	defer server.Close()
	resp, err := (&http.Client{Transport: &steps.Transport{}}).Post(server.URL, "text/plain", strings.NewReader("x"))
	if err != nil || key != "" {
		t.Errorf("key %q, %v", key, err)
	} else if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}
