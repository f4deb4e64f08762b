package stores_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/cmd/ibid/internal/stores"
)

func TestOpenRefusesWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noDatabase := filepath.Join(dir, "text")
	if err := os.WriteFile(noDatabase, []byte("this is no database, and long enough to be told from an empty one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		why, address string
		existing     bool
		says         string
	}{
		{"an address without a kind could be any", "demo.db", false, "memory: or sqlite:PATH"},
		{"an unknown kind is not guessed", "redis://localhost", false, `"redis" is no kind of store`},
		{"a name in memory would be lost on the next one", "memory:x", false, "must end after memory:"},
		{"SQLite without a file would be gone with its connection", "sqlite:", false, "name a file"},
		{"another process' memory is out of reach", "memory:", true, "cannot be opened from outside"},
		{"a typo must not make an empty store", "sqlite:" + filepath.Join(dir, "typo"), true, "no such file"},
		{"a text is no database", "sqlite:" + noDatabase, false, "not a database"},
		{"a folder is no database", "sqlite:" + dir, false, ""},
	} {
		s, err := stores.Open(t.Context(), row.address, &stores.Options{Existing: row.existing})
		if err == nil {
			s.Close()
			t.Errorf("%s: %s was opened", row.why, row.address)
			continue
		}
		if !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), row.address) {
			t.Errorf("%s: got %q, want it to name %s and say %q", row.why, err, row.address, row.says)
		}
	}
}

func TestOpenReachesTheStoresAbilities(t *testing.T) {
	t.Parallel()
	// The name is one that a URL would cut or decode.
	for _, address := range []string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "a %41?b#c.db")} {
		s, err := stores.Open(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, ok := ibid.As[ibid.Inspector](s); !ok {
			t.Errorf("%s: nobody could look into it", address)
		}
		if s.Path != "" {
			if _, err := os.Stat(s.Path); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}
