package ibidclient

import (
	"context"
	"fmt"
	"time"

	"github.com/ibid-go/ibid"
)

// Journal keeps the key of every operation from before the first byte is sent
// until its answer was handed over, so that a process that dies in between can
// ask again under the same key. The answer is handed over when its body is closed:
// who must not lose it keeps it first, and closes then. A journal is safe for
// concurrent use. FileJournal and StoreJournal are journals.
type Journal interface {
	// Keep keeps e, durably, before anything is sent. When the key is kept
	// already, it changes nothing and returns what is kept, and true. After an error
	// nothing is sent.
	Keep(ctx context.Context, e Entry) (stands Entry, earlier bool, err error)
	// Done forgets the key: its operation was answered. A key that is not kept is no error.
	// Whoever finds out otherwise what became of an operation calls it, too.
	Done(ctx context.Context, key string) error
	// Pending lists what was never answered, the oldest first: what a restarted process
	// asks for again, each under its own key (WithKey). Operations that other
	// processes have in progress with the same journal are among them.
	Pending(ctx context.Context) ([]Entry, error)
}

// Entry is one operation in a journal. The body of the request is not kept.
type Entry struct {
	// Key is the idempotency key.
	Key string
	// Label is what WithLabel said; "" for nothing.
	Label string
	// Method and URL are those of the request; the URL without user and password.
	Method, URL string
	// Fingerprint is a digest of the request, its body included: another
	// request under the key is refused.
	Fingerprint ibid.Fingerprint
	// Age is how long ago the entry was kept, by the journal's clock.
	Age time.Duration
}

// journalTimeout bounds Done, which runs when the caller has its answer already.
const journalTimeout = 5 * time.Second

// journalError is a failure of the journal's: nothing was sent.
type journalError struct{ err error }

func (e *journalError) Error() string { return "journal: " + e.err.Error() }
func (e *journalError) Unwrap() error { return e.err }

var errJournalMismatch = fmt.Errorf("%w: the journal keeps the key for another request", ibid.ErrMismatch)

// entryJSON is an entry as it is kept.
type entryJSON struct {
	Version     int       `json:"version"`
	Key         string    `json:"key"`
	Label       string    `json:"label,omitempty"`
	Method      string    `json:"method"`
	URL         string    `json:"url"`
	Fingerprint string    `json:"fingerprint"`
	Kept        time.Time `json:"kept,omitzero"` // in files only: the wall clock
}

// entryVersion is the version that is written; no other is read.
const entryVersion = 1

func (e Entry) json() entryJSON {
	return entryJSON{
		Version: entryVersion, Key: e.Key, Label: e.Label, Method: e.Method, URL: e.URL,
		Fingerprint: e.Fingerprint.String(),
	}
}

func (j entryJSON) entry() (Entry, error) {
	f, err := ibid.ParseDigest(j.Fingerprint)
	if err != nil || j.Version != entryVersion || j.Key == "" {
		return Entry{}, fmt.Errorf("%w: journal entry of version %d", ibid.ErrDamaged, j.Version)
	}
	return Entry{Key: j.Key, Label: j.Label, Method: j.Method, URL: j.URL, Fingerprint: ibid.Fingerprint(f)}, nil
}
