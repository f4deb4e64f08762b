package protocol

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

const (
	// listKeys is how many keys one pass of List holds at once.
	listKeys = 4096
	// scanCount is how many keys the server looks at in one step of SCAN.
	scanCount = 1000
)

// List implements ibid.Inspector. The server keeps no order of keys: every page
// reads the names of all keys, in steps of a thousand (SCAN), holds 4096 of them
// at most, and then reads records one by one until the page is full. A filter
// that few records match reads the names again for every 4096 records that it
// passes over. A damaged record is left out.
func (s *Store) List(ctx context.Context, filter ibid.Filter, after ibid.Digest, limit int) ([]ibid.Entry, error) {
	var page []ibid.Entry
	for len(page) < limit {
		keys, err := s.next(ctx, after)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			view, err := s.peek(ctx, key)
			if err != nil {
				return nil, err
			}
			if view.State != ibid.Absent && filter.Match(view) {
				page = append(page, ibid.Entry{Key: key, Record: view})
			}
			if len(page) == limit {
				break
			}
			after = key
		}
		if len(keys) < listKeys {
			break
		}
	}
	return page, ctx.Err()
}

// next returns the first keys after a key, in order.
func (s *Store) next(ctx context.Context, after ibid.Digest) ([]ibid.Digest, error) {
	nodes, err := s.conn.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	var keys []ibid.Digest
	trim := func() {
		slices.SortFunc(keys, func(a, b ibid.Digest) int { return bytes.Compare(a[:], b[:]) })
		keys = slices.Compact(keys) // SCAN may show a key twice
		keys = keys[:min(len(keys), listKeys)]
	}
	pattern := glob.Replace(s.prefix) + "{*}"
	for _, node := range nodes {
		for cursor := uint64(0); ; {
			var names []string
			names, cursor, err = node.Scan(ctx, cursor, pattern, scanCount)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				var key ibid.Digest
				if len(name) == len(s.prefix)+len(key)+2 {
					copy(key[:], name[len(s.prefix)+1:])
					if bytes.Compare(key[:], after[:]) > 0 {
						keys = append(keys, key)
					}
				}
			}
			if len(keys) >= 2*listKeys {
				trim()
			}
			if cursor == 0 {
				break
			}
		}
	}
	trim()
	return keys, nil
}

var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// peek reads a record without its result. One that is damaged is absent.
func (s *Store) peek(ctx context.Context, key ibid.Digest) (ibid.Record, error) {
	a, err := s.run(ctx, peek, s.key(&key))
	if err != nil || !a.found || a.left == noExpiry {
		return ibid.Record{}, err
	}
	v, err := decode(&key, a.old, false)
	if err != nil {
		return ibid.Record{}, nil
	}
	r := v.at(a.now, max(a.left, 0))
	return r.View(a.now), nil
}

// Forget implements ibid.Inspector.
func (s *Store) Forget(ctx context.Context, key ibid.Digest, token ibid.Token, window time.Duration) error {
	name := s.key(&key)
	a, err := s.run(ctx, look, name)
	if err != nil {
		return err
	}
	for !a.applied {
		v, err := a.read(&key)
		r := v.at(v.now, v.left)
		switch {
		case errors.Is(err, ibid.ErrDamaged) && token.IsZero():
			// What stands is compared whole, as nothing in it can be trusted.
			r = record.Damaged(a.now)
			v.raw = a.old
		case err != nil:
			return err
		}
		if err := r.Forget(token, window, a.now); err != nil {
			return err
		}
		if a, err = s.run(ctx, swap, name, v.prefix(), forgotten(&key, &r), strconv.FormatInt(millis(window), 10), "-1", "0"); err != nil {
			return err
		}
	}
	return nil
}

func forgotten(key *ibid.Digest, r *record.Record) string {
	b := appendHead(nil, key, stateReleased, r.Token, 0)
	return string(appendSteps(appendBody(b, key, r), key, nil))
}
