package ibidclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
)

// FileJournal is a journal in a folder: one file per operation, synchronised
// to disk before anything is sent. Several processes of one host may share the
// folder. It survives the death of the process and the loss of power, where the file system does.
//
// Ages are measured with the wall clock.
type FileJournal struct {
	dir string
}

// NewFileJournal returns the journal in dir, which is made if it does not
// exist, readable by its owner only. There is nothing to close.
func NewFileJournal(dir string) (*FileJournal, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: ibidclient: the journal's folder is not named", ibid.ErrInvalid)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("ibidclient: journal: %w", err)
	}
	return &FileJournal{dir: dir}, nil
}

// A file is written under a temporary name, synchronised, and only then linked
// to its own: whoever sees it sees it whole, and of two who keep the same key
// one wins.

const (
	entrySuffix     = ".entry"
	temporaryPrefix = ".new-"
	temporaryAge    = time.Hour // after which a temporary file is nobody's
)

// Keep implements Journal.
func (j *FileJournal) Keep(_ context.Context, e Entry) (Entry, bool, error) {
	stored := e.json()
	stored.Kept = time.Now()
	data, err := json.Marshal(stored)
	if err != nil {
		return Entry{}, false, err
	}
	name := j.name(e.Key)
	// A file that stands may be forgotten between the failed link and the read.
	for range 10 {
		err := j.create(name, seal(data))
		if err == nil {
			e.Age = 0
			return e, false, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return Entry{}, false, err
		}
		stands, err := j.read(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return stands, err == nil, err
		}
	}
	return Entry{}, false, fmt.Errorf("%w: the entry keeps appearing and vanishing", ibid.ErrUnavailable)
}

// Done implements Journal. It does not wait for the disk: an entry that comes
// back after a loss of power is asked for again, and answered by a replay.
func (j *FileJournal) Done(_ context.Context, key string) error {
	if err := os.Remove(j.name(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Pending implements Journal. A file that cannot be understood is an error that names
// it, and is ibid.ErrDamaged; the other entries are returned nevertheless.
func (j *FileJournal) Pending(ctx context.Context) ([]Entry, error) {
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("ibidclient: journal: %w", err)
	}
	var entries []Entry
	var failed error
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		name := filepath.Join(j.dir, f.Name())
		if strings.HasPrefix(f.Name(), temporaryPrefix) {
			if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > temporaryAge {
				os.Remove(name)
			}
			continue
		}
		if !strings.HasSuffix(f.Name(), entrySuffix) {
			continue
		}
		switch e, err := j.read(name); {
		case err == nil:
			entries = append(entries, e)
		case !errors.Is(err, fs.ErrNotExist):
			failed = errors.Join(failed, fmt.Errorf("ibidclient: journal: %w", err))
		}
	}
	oldestFirst(entries)
	return entries, failed
}

func oldestFirst(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(b.Age, a.Age) })
}

// name is where the entry of a key lies: keys may hold what file names may not.
func (j *FileJournal) name(key string) string {
	d := sha256.Sum256([]byte(key))
	return filepath.Join(j.dir, hex.EncodeToString(d[:])+entrySuffix)
}

func (j *FileJournal) create(name string, data []byte) error {
	tmp, err := os.CreateTemp(j.dir, temporaryPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Link(tmp.Name(), name)
	}
	if err != nil {
		return err
	}
	return syncDir(j.dir)
}

// syncDir makes the names in a folder durable. Windows has no such call: there
// the names are as durable as its file system makes them.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}

func (j *FileJournal) read(name string) (Entry, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return Entry{}, err
	}
	var stored entryJSON
	data, ok := unseal(data)
	if !ok || json.Unmarshal(data, &stored) != nil {
		return Entry{}, fmt.Errorf("%w: %s", ibid.ErrDamaged, name)
	}
	e, err := stored.entry()
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %s", err, name)
	}
	e.Age = max(time.Since(stored.Kept), 0)
	return e, nil
}

// seal appends a line with the digest of data: a changed key would be a new
// operation.
func seal(data []byte) []byte {
	d := sha256.Sum256(data)
	return fmt.Appendf(nil, "%s\n%x\n", data, d)
}

func unseal(file []byte) (data []byte, ok bool) {
	data, _, found := bytes.Cut(file, []byte("\n"))
	return data, found && bytes.Equal(file, seal(data))
}
