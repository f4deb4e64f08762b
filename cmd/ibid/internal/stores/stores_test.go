package stores_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		{"an address without a kind could be any", "demo.db", false, "memory:, sqlite:PATH"},
		{"an unknown kind is not guessed", "mongodb://localhost", false, `"mongodb" is no kind of store`},
		{"Redis without a server must not start", "redis://127.0.0.1:1", false, "refused"},
		{"a database number that is none would be database 0", "redis://127.0.0.1:1/keys", false, "redis://HOST:PORT/DB"},
		{"PostgreSQL without a server must not start", "postgres://u@127.0.0.1:1/db", false, "refused"},
		{"MySQL without a server must not start", "mysql://u@127.0.0.1:1/db", false, "refused"},
		{"MySQL without a database has no tables", "mysql://u@127.0.0.1:1", false, "mysql://USER@HOST:PORT/DATABASE"},
		{"a front cannot decide for a store that is not there", "redis://127.0.0.1:1+postgres://u@127.0.0.1:1/db", false, "refused"},
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
		if !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), row.address[strings.Index(row.address, "+")+1:]) {
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

func TestNoPasswordIsShown(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"redis://u:hunter2@127.0.0.1:1", "redis://:hunter2@127.0.0.1:1/x", "postgres://u:hunter2@127.0.0.1:1/db", "mysql://u:hunter2@127.0.0.1:1/db",
		"postgres://u:hunter2@[::1/db", "mongodb://u:hunter2@h/db", "redis://u:hunter2@127.0.0.1:1+postgres://u:hunter2@127.0.0.1:1/db",
	} {
		s, err := stores.Open(t.Context(), address, nil)
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", address)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(stores.Shown(address), "hunter2") {
			t.Errorf("a password is shown: %v, %s", err, stores.Shown(address))
		}
	}
}

// A front that is down stops no service, which is answered by the store that decides.
func TestAFrontMayComeLater(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.db")
	s, err := stores.Open(t.Context(), "redis://127.0.0.1:1+sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	claim := ibid.Claim{Token: ibid.NewToken(), Lease: time.Minute, Window: time.Hour}
	if r, err := s.Begin(t.Context(), ibid.Digest{1}, claim); err != nil || !r.OwnedBy(claim.Token) {
		t.Errorf("%+v, %v", r, err)
	}
	if d, ok := ibid.As[ibid.Describer](s); !ok {
		t.Error("it does not say what it survives")
	} else if got, err := d.Describe(t.Context()); err != nil || got.Survives&ibid.PowerLoss == 0 {
		t.Errorf("it survives %v, %v: want what the SQLite file survives", got.Survives, err)
	}
	if s.Path != file {
		t.Errorf("path %q", s.Path)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ address, says string }{
		{"sqlite:", "CREATE TABLE"},
		{"postgres:", "CREATE TABLE"},
		{"mysql:", "CREATE TABLE"},
		{"postgres://u:p@h/db?table=app_keys", "app_keys"},
		{"mysql://u:p@h/db?table=app_keys", "app_keys"},
		{"redis://h+mariadb://h/db", "CREATE TABLE"},
	} {
		text, err := stores.Schema(row.address)
		if err != nil || !strings.Contains(text, row.says) {
			t.Errorf("%s: %v, %.100q, want it to say %q", row.address, err, text, row.says)
		}
	}
	for _, address := range []string{"redis://h", "memory:", "oracle://h", "postgres://h?table=DROP%20TABLE"} {
		if text, err := stores.Schema(address); err == nil {
			t.Errorf("%s has a schema: %.100q", address, text)
		}
	}
	path := "sqlite:" + filepath.Join(t.TempDir(), "keys.db")
	for range 2 {
		if err := stores.Migrate(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	s, err := stores.Open(t.Context(), path, &stores.Options{Existing: true})
	if err != nil {
		t.Fatalf("after Migrate: %v", err)
	}
	s.Close()
}
