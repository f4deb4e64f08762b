package ibidclient

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// StoreJournal is a journal in an ibid.Store: for clients on several hosts, and
// for those that have no disk. An entry is a claim that nobody completes; it
// says in plain text which request it stands for. Ages are measured with the store's clock.
//
// The store may be shared with an engine and with other journals.
type StoreJournal struct {
	store  ibid.Store
	list   ibid.Inspector
	scope  string
	retain time.Duration
}

// StoreJournalOptions are the options of a StoreJournal. A nil
// *StoreJournalOptions, and the zero value of every field, is the default.
type StoreJournalOptions struct {
	// Retain is how long an entry that is never answered is kept. It should
	// be longer than the server's window. Default 7 days.
	Retain time.Duration
}

// NewStoreJournal returns the journal of the client called name in store, which
// must be able to list its records (ibid.Inspector) and stays the caller's to close. Clients with the
// same name share their entries.
func NewStoreJournal(store ibid.Store, name string, opts *StoreJournalOptions) (*StoreJournal, error) {
	j := &StoreJournal{store: store, scope: name}
	if opts != nil {
		j.retain = opts.Retain
	}
	pick(&j.retain, 7*24*time.Hour)
	list, ok := ibid.As[ibid.Inspector](store)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: ibidclient: the journal's store cannot list its records", ibid.ErrInvalid)
	case name == "":
		return nil, fmt.Errorf("%w: ibidclient: the journal's client has no name", ibid.ErrInvalid)
	case j.retain < 0:
		return nil, fmt.Errorf("%w: ibidclient: StoreJournalOptions.Retain is negative", ibid.ErrInvalid)
	}
	j.list = list
	return j, nil
}

// Keep implements Journal.
func (j *StoreJournal) Keep(ctx context.Context, e Entry) (Entry, bool, error) {
	label, err := json.Marshal(e.json())
	if err != nil {
		return Entry{}, false, err
	}
	token := ibid.NewToken()
	claim := ibid.Claim{
		Token: token, Fingerprint: e.Fingerprint, Scope: j.digest("scope"), Label: label,
		Lease: j.retain, Window: time.Minute,
	}
	r, err := j.store.Begin(ctx, j.digest("key", e.Key), claim)
	if err != nil {
		// Whether it was claimed is not known; asked with the same token, Begin says so.
		r, err = j.store.Begin(ctx, j.digest("key", e.Key), claim)
	}
	if err != nil {
		return Entry{}, false, err
	}
	if r.OwnedBy(token) {
		e.Age = 0
		return e, false, nil
	}
	stands, err := j.entry(r)
	return stands, err == nil, err
}

// Done implements Journal.
func (j *StoreJournal) Done(ctx context.Context, key string) error {
	d := j.digest("key", key)
	r, err := j.store.Look(ctx, d)
	if err != nil {
		return err
	}
	if r.State != ibid.InProgress && r.State != ibid.Lapsed {
		return nil
	}
	return j.store.Release(ctx, d, r.Token)
}

// Pending implements Journal.
func (j *StoreJournal) Pending(ctx context.Context) ([]Entry, error) {
	const batch = 500
	filter := ibid.Filter{Scope: j.digest("scope"), States: []ibid.State{ibid.InProgress, ibid.Lapsed}}
	var entries []Entry
	var after ibid.Digest
	for {
		records, err := j.list.List(ctx, filter, after, batch)
		if err != nil {
			return nil, fmt.Errorf("ibidclient: journal: %w", err)
		}
		for _, r := range records {
			e, err := j.entry(r.Record)
			if err != nil {
				return nil, fmt.Errorf("ibidclient: journal: %w", err)
			}
			entries = append(entries, e)
			after = r.Key
		}
		if len(records) < batch {
			oldestFirst(entries)
			return entries, nil
		}
	}
}

func (j *StoreJournal) entry(r ibid.Record) (Entry, error) {
	var stored entryJSON
	if err := json.Unmarshal(r.Label, &stored); err != nil {
		return Entry{}, fmt.Errorf("%w: not a journal entry", ibid.ErrDamaged)
	}
	e, err := stored.entry()
	// The lease is not renewed: what is gone of it is the entry's age.
	e.Age = max(j.retain-r.Lease, 0)
	return e, err
}

// digest keeps the journal's keys apart from those of an engine and of other
// journals in the same store.
func (j *StoreJournal) digest(purpose string, parts ...string) ibid.Digest {
	return sha256.Sum256([]byte(ibid.Join(append([]string{"ibid client journal 1", purpose, j.scope}, parts...)...)))
}
