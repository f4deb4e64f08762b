package record_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/record"
)

var update = flag.Bool("update", false, "write testdata/v1.txt anew: never for a version that was released")

// sealSum returns body with the checksum that Append would give it.
func sealSum(key ibid.Digest, body []byte) []byte {
	sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) ^ key.Fold()
	return binary.LittleEndian.AppendUint32(bytes.Clone(body), sum)
}

// digest, fingerprint and token are filled with bytes that count up from b.
func digest(b byte) (v ibid.Digest) {
	for i := range v {
		v[i] = b + byte(i)
	}
	return v
}

func fingerprint(b byte) ibid.Fingerprint { return ibid.Fingerprint(digest(b)) }

func token(b byte) ibid.Token {
	d := digest(b)
	return ibid.Token(d[:16])
}

var (
	key   = digest(0x10)
	other = digest(0x11)
)

// samples hold every field, and none, in every state.
var samples = []struct {
	name string
	r    record.Record
}{
	{"in progress", record.Record{
		Held: true, Token: token(0x20), Fence: 1_763_000_000_000_000, Attempt: 1,
		Fingerprint: fingerprint(0x30), Scope: digest(0x40),
		LeaseEnd: 1_763_000_030_000_000_000, WindowEnd: 1_763_086_430_000_000_000, Gone: 1_763_086_430_000_000_000,
	}},
	{"taken over, with label and steps", record.Record{
		Held: true, Token: token(0x21), Fence: 1_763_000_000_000_007, Attempt: 300, Vanished: 299, Generation: 2,
		Fingerprint: fingerprint(0x31), Scope: digest(0x41), Label: []byte("order 17"), Steps: []byte("charge\x00done"),
		LeaseEnd: 1_763_000_030_000_000_000, WindowEnd: 1_763_086_430_000_000_000, Gone: 1_763_086_430_000_000_000,
	}},
	{"released, without fingerprint", record.Record{
		Token: token(0x22), Fence: 5, Attempt: 2, Scope: digest(0x42),
		WindowEnd: 1_763_086_430_000_000_000, Gone: 1_763_086_430_000_000_000,
	}},
	{"completed", record.Record{
		Done: true, Token: token(0x23), Fence: 1_763_000_000_000_000, Attempt: 1,
		Fingerprint: fingerprint(0x33), Scope: digest(0x43),
		WindowEnd: 1_763_086_400_000_000_000, Gone: 1_763_086_400_000_000_000, Result: []byte(`{"payment_id":"p-1"}`),
	}},
	{"completed and remembered, with everything", record.Record{
		Done: true, Token: token(0x24), Fence: 1, Attempt: 1, Vanished: 1, Generation: 1,
		Fingerprint: fingerprint(0x34), Scope: digest(0x44), Label: []byte{0}, Steps: []byte{0xff},
		WindowEnd: 1_763_086_400_000_000_000, Gone: 1_763_691_200_000_000_000, Result: []byte{0, 0xff},
	}},
	{"completed with an empty result", record.Record{Done: true, WindowEnd: 1, Gone: 1, Result: []byte{}}},
	{"nothing at all", record.Record{}},
}

func TestDecodeReadsWhatAppendWrote(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		prefix := []byte("prefix")
		b := s.r.Append(prefix, key)
		if !bytes.HasPrefix(b, prefix) {
			t.Errorf("%s: Append wrote over what was there", s.name)
		}
		got, err := record.Decode(key, b[len(prefix):])
		if err != nil || !reflect.DeepEqual(got, s.r) {
			t.Errorf("%s: %+v, %v\nwant %+v", s.name, got, err, s.r)
		}
	}
}

// Records of version 1 are read for ever: their bytes are kept as they were
// first written.
func TestVersion1(t *testing.T) {
	t.Parallel()
	const file = "testdata/v1.txt"
	var text strings.Builder
	fmt.Fprintf(&text, "# Records of version 1, as kept under %v.\n", key)
	for _, s := range samples {
		fmt.Fprintf(&text, "%s: %x\n", s.name, s.r.Append(nil, key))
	}
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != text.String() {
		t.Errorf("Append no longer writes version 1:\n%s", text.String())
	}
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")[1:]
	if len(lines) != len(samples) {
		t.Fatalf("%d records in %s, want %d", len(lines), file, len(samples))
	}
	for i, s := range samples {
		_, digits, _ := strings.Cut(lines[i], ": ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := record.Decode(key, b); err != nil || !reflect.DeepEqual(got, s.r) {
			t.Errorf("%s: %+v, %v\nwant %+v", s.name, got, err, s.r)
		}
	}
}

// No damage to a record is read as another record, nor as none.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		b := s.r.Append(nil, key)
		damaged := func(what string, b []byte) {
			if r, err := record.Decode(key, b); !errors.Is(err, ibid.ErrDamaged) || !reflect.DeepEqual(r, record.Record{}) {
				t.Errorf("%s: %s: read as %+v, %v", s.name, what, r, err)
			}
		}
		for i := range b {
			for bit := range 8 {
				flipped := bytes.Clone(b)
				flipped[i] ^= 1 << bit
				damaged(fmt.Sprintf("bit %d of byte %d flipped", bit, i), flipped)
			}
			for _, v := range []byte{0, 0xff} {
				if b[i] != v {
					set := bytes.Clone(b)
					set[i] = v
					damaged(fmt.Sprintf("byte %d set to %#x", i, v), set)
				}
			}
			damaged(fmt.Sprintf("cut to %d bytes", i), b[:i])
		}
		damaged("one byte too many", append(bytes.Clone(b), 0))
		damaged("nothing", nil)
		damaged("zeros", make([]byte, len(b)))
		if _, err := record.Decode(other, b); !errors.Is(err, ibid.ErrDamaged) {
			t.Errorf("%s: under another key: %v", s.name, err)
		}
	}
}

// What a newer program wrote, with a checksum that is right, is not guessed at.
func TestUnknownFailsClosed(t *testing.T) {
	t.Parallel()
	whole := samples[3].r.Append(nil, key)
	body := whole[:len(whole)-4]
	for _, tt := range []struct {
		name   string
		change func(b []byte) []byte
	}{
		{"version 0", func(b []byte) []byte { b[0] = 0; return b }},
		{"version 2", func(b []byte) []byte { b[0] = 2; return b }},
		{"version 255", func(b []byte) []byte { b[0] = 255; return b }},
		{"a flag that is not known", func(b []byte) []byte { b[1] |= 0x20; return b }},
		{"the highest flag", func(b []byte) []byte { b[1] |= 0x80; return b }},
		{"both held and done", func(b []byte) []byte { b[1] |= 1; return b }},
		{"a field that is not there", func(b []byte) []byte { return b[:30] }},
		{"a released record with more after it", func(b []byte) []byte { b[1] &^= 2; return b }},
	} {
		if r, err := record.Decode(key, sealSum(key, tt.change(bytes.Clone(body)))); !errors.Is(err, ibid.ErrDamaged) {
			t.Errorf("%s: read as %+v, %v", tt.name, r, err)
		}
	}
	if _, err := record.Decode(key, sealSum(key, body)); err != nil {
		t.Errorf("the test's own checksum is wrong: %v", err)
	}
}

// Any bytes, with a checksum that is right, are damaged or a record that is
// written again as one that reads the same; a reader never panics, and never
// makes a record out of bytes whose checksum is wrong.
func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		b := s.r.Append(nil, key)
		f.Add(b[:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := record.Decode(key, sealSum(key, body))
		if err != nil {
			if !errors.Is(err, ibid.ErrDamaged) {
				t.Fatalf("%v, want ErrDamaged", err)
			}
			return
		}
		again, err := record.Decode(key, r.Append(nil, key))
		if err != nil || !reflect.DeepEqual(plain(again), plain(r)) {
			t.Fatalf("read %+v, then %+v, %v", r, again, err)
		}
		if _, err := record.Decode(other, sealSum(key, body)); err == nil {
			t.Fatal("read under another key")
		}
	})
}

// Any record reads as it was written, and any one change of a byte is noticed.
func FuzzRoundTrip(f *testing.F) {
	for i, s := range samples {
		f.Add(s.r.Held, s.r.Done, s.r.Token[:], s.r.Fence, s.r.Attempt, s.r.LeaseEnd, s.r.WindowEnd, s.r.Gone, s.r.Label, s.r.Steps, s.r.Result, uint(i), byte(1))
	}
	f.Fuzz(func(t *testing.T, held, done bool, token []byte, fence int64, attempt int, leaseEnd, windowEnd, gone int64, label, steps, result []byte, at uint, flip byte) {
		r := record.Record{Held: held && !done, Done: done, Fence: fence, Attempt: attempt, Gone: gone, WindowEnd: gone, Label: label, Steps: steps}
		copy(r.Token[:], token)
		if r.Held {
			r.LeaseEnd = leaseEnd
		}
		if r.Done {
			r.WindowEnd, r.Result = windowEnd, result
		}
		b := r.Append(nil, key)
		got, err := record.Decode(key, b)
		if err != nil || !reflect.DeepEqual(plain(got), plain(r)) {
			t.Fatalf("wrote %+v, read %+v, %v", r, got, err)
		}
		if flip != 0 {
			b[at%uint(len(b))] ^= flip
			if got, err := record.Decode(key, b); !errors.Is(err, ibid.ErrDamaged) {
				t.Fatalf("damaged, read as %+v, %v", got, err)
			}
		}
	})
}

// plain makes nil of empty bytes.
func plain(r record.Record) record.Record {
	for _, b := range []*[]byte{&r.Label, &r.Steps, &r.Result} {
		if len(*b) == 0 {
			*b = nil
		}
	}
	return r
}
