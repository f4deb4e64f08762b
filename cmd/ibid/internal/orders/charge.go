package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ibid-go/ibid/cmd/ibid/internal/provider"
	"github.com/ibid-go/ibid/ibidclient"
	"github.com/ibid-go/ibid/steps"
)

// charge is what the provider answered, as the step keeps it.
type charge struct {
	ID       string `json:"charge_id"`
	Declined bool   `json:"declined,omitempty"`
}

// bank returns the client that calls the provider. The step's derived key is on every
// call, of every attempt; within an attempt an answer that does not come is
// asked for again, a few times and not for long, since the caller waits meanwhile.
func bank(freshKey bool) *http.Client {
	retrying := ibidclient.New(&ibidclient.Options{
		Attempts: 6, AttemptTimeout: 700 * time.Millisecond, TotalTime: 5 * time.Second,
		BaseDelay: 50 * time.Millisecond, MaxDelay: 300 * time.Millisecond,
		Budget: ibidclient.Budget{Reserve: -1},
	})
	if freshKey {
		return retrying // it makes a key for every call that has none
	}
	return &http.Client{Transport: &steps.Transport{Base: retrying.Transport}}
}

// errProvider reports that the provider has not answered. The card may have
// been charged.
var errProvider = errors.New("the payment provider does not answer")

// charge asks the provider. An error leaves the step maybe done.
func (s *Shop) charge(ctx context.Context, o Order, f faults) (charge, error) {
	body, err := json.Marshal(provider.Charge{OrderID: o.ID, Amount: o.Amount, Currency: o.Currency})
	if err != nil {
		return charge{}, steps.NotDone(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.opts.Provider+"/charges", bytes.NewReader(body))
	if err != nil {
		return charge{}, steps.NotDone(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(provider.MerchantHeader, "shop")
	if f.provider != "" {
		req.Header.Set(provider.FaultHeader, f.provider)
	}
	resp, err := s.bank.Do(req)
	if err != nil {
		return charge{}, fmt.Errorf("%w: %w", errProvider, err)
	}
	defer resp.Body.Close()
	var c charge
	switch resp.StatusCode {
	case http.StatusCreated:
		if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || c.ID == "" {
			return charge{}, fmt.Errorf("%w: its answer breaks off: %w", errProvider, err)
		}
		return c, nil
	case http.StatusPaymentRequired:
		return charge{Declined: true}, nil
	}
	return charge{}, fmt.Errorf("%w: %s", errProvider, resp.Status)
}
