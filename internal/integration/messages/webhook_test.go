package messages

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/pgxstore"
	"github.com/ibid-go/ibid/webhook"
)

// A webhook whose handler writes in the transaction of its record.
func TestWebhookInATransaction(t *testing.T) {
	t.Parallel()
	db := openPostgres(t)
	inTx, _ := ibid.As[ibid.TxStore](db.store)
	engine, err := ibid.New(t.Context(), db.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := inbox.New(engine, "hooks", ibid.Retry, &inbox.Options{Tx: inTx})
	if err != nil {
		t.Fatal(err)
	}
	fail := errors.New("after the write")
	var mu sync.Mutex
	handler, err := webhook.New(consumer, webhook.GitHub([]byte("secret")), func(ctx context.Context, e webhook.Event) error {
		tx, ok := pgxstore.Tx(ctx)
		if !ok {
			return errors.New("no transaction")
		}
		if err := db.effect(ctx, tx, string(e.Body)); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		err := fail
		fail = nil
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	post := func(secret, id string) int {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte("pushed"))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("pushed"))
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		r.Header.Set("X-GitHub-Delivery", id)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	if code := post("guess", "1"); code != http.StatusUnauthorized {
		t.Errorf("forged: %d", code)
	}
	if code := post("secret", "1"); code != http.StatusServiceUnavailable || db.effects("pushed") != 0 {
		t.Errorf("failed after its write: %d, %d effects", code, db.effects("pushed"))
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if code := post("secret", "1"); code != http.StatusNoContent {
				t.Errorf("genuine: %d", code)
			}
		})
	}
	all.Wait()
	if code := post("secret", "fresh"); code != http.StatusUnprocessableEntity {
		t.Errorf("captured, under a fresh ID: %d", code)
	}
	if n := db.effects("pushed"); n != 1 {
		t.Errorf("%d effects", n)
	}
}
