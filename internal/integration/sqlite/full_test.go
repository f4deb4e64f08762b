package sqlite

import (
	"context"
	"errors"
	"testing"

	"github.com/ibid-go/ibid"
)

// A file that may not grow refuses new keys. It replays, and it ends claims as far as
// there is room in the pages it has.
func TestAFullFile(t *testing.T) {
	t.Parallel()
	f := openWith(t, "?_pragma=max_page_count(40)", nil)
	ctx := context.Background()
	done, _ := f.completed("answer")
	type held struct {
		key   ibid.Digest
		claim ibid.Claim
	}
	var claims []held
	var full error
	for full == nil {
		h := held{newKey(), newClaim()}
		var r ibid.Record
		if r, full = f.Begin(ctx, h.key, h.claim); full == nil {
			claims = append(claims, h)
			continue
		}
		if r.State != ibid.Absent {
			t.Errorf("a refused Begin shows %v", r.State)
		}
		f.state(h.key, ibid.Absent)
	}
	if !errors.Is(full, ibid.ErrFull) {
		t.Fatalf("%v, want ErrFull", full)
	}
	if len(claims) < 100 {
		t.Fatalf("only %d claims before it was full", len(claims))
	}
	if r, err := f.Begin(ctx, done, newClaim()); err != nil || string(r.Result) != "answer" {
		t.Errorf("replay: %q, %v, want the answer", r.Result, err)
	}
	if r, err := f.Begin(ctx, claims[0].key, newClaim()); err != nil || r.State != ibid.InProgress {
		t.Errorf("conflict: %v, %v, want in progress", r.State, err)
	}

	// A result that cannot be written leaves the claim as it was.
	large := make([]byte, 1<<20)
	h := claims[0]
	if err := f.Complete(ctx, h.key, h.claim.Token, large, ibid.Keep{Retain: long}); !errors.Is(err, ibid.ErrFull) {
		t.Errorf("a large result: %v, want ErrFull", err)
	}
	if r := f.state(h.key, ibid.InProgress); !r.OwnedBy(h.claim.Token) {
		t.Error("the claim was lost")
	}
	// What takes no more room than the claim did can be written.
	completed := 0
	for _, h := range claims {
		switch err := f.complete(h.key, h.claim, "ok"); {
		case err == nil:
			completed++
			f.state(h.key, ibid.Completed)
		case errors.Is(err, ibid.ErrFull):
			f.state(h.key, ibid.InProgress)
		default:
			t.Fatal(err)
		}
	}
	if completed < len(claims)*9/10 {
		t.Errorf("%d of %d short results found room", completed, len(claims))
	}
	// Room that is freed is used.
	f.exec("DELETE FROM ibid_record WHERE key <> ?", h.key[:])
	f.owned()
}
