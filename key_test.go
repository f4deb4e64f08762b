package ibid_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/ibid-go/ibid"
)

// Different parts never make the same string, however they are cut.
func FuzzJoinIsInjective(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("", "a", "a", "")
	f.Add("1:a", "", "", "1:a")
	f.Add("0:", "0:", "", "0:0:0:")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if same := a == c && b == d; same != (ibid.Join(a, b) == ibid.Join(c, d)) {
			t.Fatalf("Join(%q, %q) and Join(%q, %q)", a, b, c, d)
		}
		if ibid.Join(a, b) == ibid.Join(a+b) || ibid.Join(a) == ibid.Join(a, b) {
			t.Fatalf("parts of different number make one string: %q %q", a, b)
		}
	})
}

// Different keys never have the same digest, with a secret or without.
func FuzzKeyDigestIsInjective(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("ab", "c", "a", "bc")
	f.Add("a\x00", "b", "a", "\x00b")
	f.Fuzz(func(t *testing.T, scope1, id1, scope2, id2 string) {
		k1, k2 := ibid.Key{Scope: scope1, ID: id1}, ibid.Key{Scope: scope2, ID: id2}
		secret := []byte("0123456789abcdef")
		if (k1 == k2) != (ibid.KeyDigest(nil, k1) == ibid.KeyDigest(nil, k2)) {
			t.Fatalf("%+v and %+v", k1, k2)
		}
		if (k1 == k2) != (ibid.KeyDigest(secret, k1) == ibid.KeyDigest(secret, k2)) {
			t.Fatalf("%+v and %+v, with a secret", k1, k2)
		}
		if ibid.KeyDigest(nil, k1) == ibid.KeyDigest(secret, k1) {
			t.Fatal("the secret changes nothing")
		}
	})
}

func FuzzFingerprintIsInjective(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"), []byte("ab"), []byte("c"))
	e := newEngine(f, nil, nil)
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		same := string(a) == string(c) && string(b) == string(d)
		if same != (e.Fingerprint(a, b) == e.Fingerprint(c, d)) {
			t.Fatalf("(%q, %q) and (%q, %q)", a, b, c, d)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	f.Add("00")
	f.Add(ibid.Digest{}.String())
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ibid.ParseDigest(s)
		if err == nil && len(s) != 64 {
			t.Fatalf("%q is taken for %v", s, d)
		}
		if back, err := ibid.ParseDigest(d.String()); err != nil || back != d {
			t.Fatalf("%v does not read what it wrote: %v", d, err)
		}
	})
}

// The digests of the first release, which every later one must make, too:
// another digest would run again what is kept under this one.
func TestDigestsNeverChange(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	e := newEngine(t, nil, &ibid.Options{Secret: secret})
	derived := ""
	must(t, e, order, func(ctx context.Context) ([]byte, error) {
		derived = ibid.DerivedKey(ctx, "charge")
		return nil, nil
	})
	for _, tc := range []struct{ what, got, want string }{
		{"derived key", derived, "48430376-47f2-81bd-b2a1-82a0176d79e3"},
		{"key", ibid.KeyDigest(nil, order.Key).String(), "f7a0c92ece7a6de2188580bf64c5f3dc0c06c7fe639d663624c1019440abf8b2"},
		{"key, with a secret", ibid.KeyDigest(secret, order.Key).String(), "19787d6a584d523ca6dc7cc84d84d39195125b2a72fa4ac5215127fc0fbffb22"},
		{"fingerprint", e.Fingerprint([]byte("a"), []byte("bc")).String(), "011197c205508d876891cc3413be38b10d4803325f75bfdb2b3152b45d30d221"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, tc.got, tc.want)
		}
	}
}

var uuid8 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
