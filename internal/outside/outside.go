package outside

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// Missing is the error of a server or a tool that is not installed.
type Missing struct {
	What    string // a command, as the machine calls it
	Package string // Debian's, which brings it
}

// Error says what to install.
func (m Missing) Error() string {
	return fmt.Sprintf("%s is missing: apt-get install %s", m.What, m.Package)
}

// Need ends the test where err is not nil. A Missing skips it, unless
// IBID_TEST_REQUIRE is "all"; every other error fails it.
func Need(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var missing Missing
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	if os.Getenv("IBID_TEST_REQUIRE") == "all" {
		t.Fatalf("%v (IBID_TEST_REQUIRE=all)", err)
	}
	if err := note(os.Getenv("IBID_TEST_SKIPS"), fmt.Sprintf("%s: %v\n", t.Name(), err)); err != nil {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Address is the server that the environment names, as in IBID_TEST_REDIS for
// "REDIS". It is empty where a private one shall be started.
func Address(server string) string { return os.Getenv("IBID_TEST_" + server) }

// note adds a line to a file that other processes add to, too.
func note(file, line string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
