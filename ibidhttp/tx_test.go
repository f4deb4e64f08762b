package ibidhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// ledger is a transactional store: one list of writes, and records beside it.
type ledger struct {
	ibid.Store
	rows  []string
	again int // how many transactions still end in a serialization failure
}

type ledgerTx struct {
	l      *ledger
	key    ibid.Digest
	token  ibid.Token
	writes []string
	ended  bool
}

type ledgerKey struct{}

var errSerialization = errors.New("could not serialize access")

func (l *ledger) BeginTx(ctx context.Context, key ibid.Digest, c ibid.Claim, _ time.Duration) (ibid.Tx, ibid.Record, error) {
	rec, err := l.Begin(ctx, key, c)
	if err != nil || !rec.OwnedBy(c.Token) {
		return nil, rec, err
	}
	return &ledgerTx{l: l, key: key, token: c.Token}, rec, nil
}

func (tx *ledgerTx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, ledgerKey{}, tx)
}

func (tx *ledgerTx) Commit(ctx context.Context, result []byte, keep ibid.Keep, undo bool) error {
	if tx.l.again > 0 {
		tx.l.again--
		return ibid.ErrTxAgain
	}
	if !undo {
		tx.l.rows = append(tx.l.rows, tx.writes...)
	}
	tx.ended = true
	return tx.l.Complete(ctx, tx.key, tx.token, result, keep)
}

func (tx *ledgerTx) Rollback(ctx context.Context) error {
	if tx.ended {
		return nil
	}
	tx.ended = true
	return tx.l.Release(ctx, tx.key, tx.token)
}

func (tx *ledgerTx) Again(err error) bool { return errors.Is(err, errSerialization) }

// What a handler writes in its transaction stands exactly when its answer is a
// success, and the answer of a transaction that was run again is the last one.
func TestTransactionalMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		again  int
		rows   int // after two requests
		runs   int64
		replay bool
	}{
		{201, 0, 1, 1, true},
		{303, 0, 1, 1, true},
		{409, 0, 0, 1, true},
		{503, 0, 0, 2, false},
		{201, 2, 1, 3, true},
		{409, 2, 0, 3, true},
	} {
		t.Run(fmt.Sprint(c.status, " after ", c.again, " failures"), func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, nil)
			l := &ledger{Store: s.store, again: c.again}
			s.handler = ibidhttp.New(s.engine, ibidhttp.ByHeader(user), &ibidhttp.Options{Tx: l})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := s.runs.Add(1)
				tx := r.Context().Value(ledgerKey{}).(*ledgerTx)
				body, _ := io.ReadAll(r.Body)
				tx.writes = append(tx.writes, string(body))
				w.Header().Set(fmt.Sprint("X-Run-", n), "1")
				w.WriteHeader(c.status)
				fmt.Fprint(w, strings.Repeat("run ", int(4-n)), n)
			}))
			first, second := s.post("k", "charge"), s.post("k", "charge")
			if first.Code != c.status {
				t.Errorf("first: %d %s", first.Code, first.Body)
			}
			if c.replay {
				wantReplay(t, first, second)
				if want := fmt.Sprint("X-Run-", c.again+1); first.Header().Get(want) == "" || c.again > 0 && first.Header().Get("X-Run-1") != "" {
					t.Errorf("the answer has parts of another run: %v", first.Header())
				}
			}
			s.wantRuns(c.runs)
			if len(l.rows) != c.rows || c.rows > 0 && l.rows[0] != "charge" {
				t.Errorf("rows %q, want %d", l.rows, c.rows)
			}
		})
	}
}
