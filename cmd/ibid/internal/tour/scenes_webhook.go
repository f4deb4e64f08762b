package tour

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
	"github.com/ibid-go/ibid/inbox"
	"github.com/ibid-go/ibid/webhook"
)

const webhookSecret = "a secret that the provider and the endpoint share"

// endpoint receives webhooks, in the tour's own process.
type endpoint struct {
	url      string
	engine   *ibid.Engine
	consumer *inbox.Consumer
	charges  atomic.Int64
	close    func()
}

func (s *stage) startEndpoint(ctx context.Context) (*endpoint, error) {
	secret, err := stores.Secret(s.opts.SecretFile)
	if err != nil {
		return nil, err
	}
	store, err := stores.Open(ctx, s.opts.Store, nil)
	if err != nil {
		return nil, err
	}
	e := &endpoint{close: func() { store.Close() }}
	fail := func(err error) (*endpoint, error) {
		e.close()
		return nil, err
	}
	if e.engine, err = ibid.New(ctx, store, &ibid.Options{Secret: secret}); err != nil {
		return fail(err)
	}
	if e.consumer, err = inbox.New(e.engine, "hooks", ibid.Retry, nil); err != nil {
		return fail(err)
	}
	handler, err := webhook.New(e.consumer, &webhook.Standard{Source: "provider", Secrets: [][]byte{[]byte(webhookSecret)}},
		func(context.Context, webhook.Event) error {
			time.Sleep(50 * time.Millisecond) // long enough for the others to come
			e.charges.Add(1)
			return nil
		}, nil)
	if err != nil {
		return fail(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	e.url = "http://" + listener.Addr().String()
	e.close = func() {
		server.Close()
		<-done
		store.Close()
	}
	return e, nil
}

// deliver sends the event as the provider does, signed with secret, and returns
// the status.
func (s *stage) deliver(ctx context.Context, url, id, secret string) (int, error) {
	body, now := []byte(`{"type":"order.paid","amount":3000}`), strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s.%s", id, now, body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", now)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	s.client.sent.Add(1)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// deliveredFiveTimes has a forger try first, then the provider deliver its event
// five times at once.
func deliveredFiveTimes(ctx context.Context, s *stage) error {
	e, err := s.startEndpoint(ctx)
	if err != nil {
		return err
	}
	defer e.close()
	id := "evt-" + s.id
	status, err := s.deliver(ctx, e.url, id, "a guess")
	if err != nil {
		return err
	}
	s.step("POST /hooks  webhook-id "+id+", signed with a guess", fmt.Sprint(status))
	op, err := e.engine.Inspect(ctx, e.engine.Digest(e.consumer.Key(inbox.Message{Source: "provider", ID: id})))
	if err != nil {
		return err
	}
	s.step("what the store keeps of the event then", op.Record.State.String())
	err = all(expect("the answer to the forger", http.StatusUnauthorized, status), expect("the record after a forged event", ibid.Absent, op.Record.State))
	if err != nil {
		return err
	}
	var statuses [5]int
	var errs [5]error
	var sending sync.WaitGroup
	for i := range statuses {
		sending.Go(func() { statuses[i], errs[i] = s.deliver(ctx, e.url, id, webhookSecret) })
	}
	sending.Wait()
	s.step("POST /hooks  webhook-id "+id+", five times at once", fmt.Sprint(statuses))
	for i := range statuses {
		if err := all(errs[i], expect("the answer to a delivery", http.StatusNoContent, statuses[i])); err != nil {
			return err
		}
	}
	return s.count("event "+id, int(e.charges.Load()), 1)
}

// count expects a ledger that is not the payments service's to hold want charges.
func (s *stage) count(what string, n, want int) error {
	s.record(Step{Sent: "the ledger of " + what, Got: plural(n, "charge"), Charges: &n})
	s.charges[what] = n
	return expect("charges of "+what, want, n)
}
