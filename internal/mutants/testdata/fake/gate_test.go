package fake_test

import (
	"os"
	"testing"

	"example.test/fake"
)

func TestNegative(t *testing.T) {
	if fake.Open(-1) {
		t.Error("-1 passes")
	}
}

func TestThirteen(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		if fake.Open(13) {
			t.Error("13 passes")
		}
	})
}

func TestAlwaysFails(t *testing.T) { t.Error("always") }

func TestHangs(t *testing.T) {
	for fake.Open(13) {
	}
}

func TestExits(t *testing.T) {
	if fake.Open(13) {
		os.Exit(3)
	}
}
