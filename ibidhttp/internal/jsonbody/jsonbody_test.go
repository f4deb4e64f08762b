package jsonbody_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ibid-go/ibid/ibidhttp/internal/jsonbody"
)

func pointers(t testing.TB, list ...string) []jsonbody.Pointer {
	t.Helper()
	var out []jsonbody.Pointer
	for _, s := range list {
		p, err := jsonbody.ParsePointer(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, a, b       string
		include, exclude []string
		same             bool
	}{
		{"order of members", `{"a":1,"b":[true,null]}`, ` { "b" : [ true , null ] , "a" : 1 } `, nil, nil, true},
		{"order of elements counts", `[1,2]`, `[2,1]`, nil, nil, false},
		{"escapes", `"\u0041\/\ud83d\ude00"`, `"A/😀"`, nil, nil, true},
		{"escaped member names", `{"\u0061":1}`, `{"a":1}`, nil, nil, true},
		{"large ids differ", `{"id":9007199254740993}`, `{"id":9007199254740992}`, nil, nil, false},
		{"19 digits differ", `1234567890123456789`, `1234567890123456788`, nil, nil, false},
		{"number literals count as written", `1.0`, `1`, nil, nil, false},
		{"exponents count as written", `1e2`, `100`, nil, nil, false},
		{"minus zero", `-0`, `0`, nil, nil, false},
		{"string and number", `"1"`, `1`, nil, nil, false},
		{"null and absent", `{"a":null}`, `{}`, nil, nil, false},
		{"empty array and object", `[]`, `{}`, nil, nil, false},
		{"quotes in strings", `["a\",\"b"]`, `["a","b"]`, nil, nil, false},
		{"excluded member", `{"a":1,"ts":5}`, `{"a":1,"ts":6}`, nil, []string{"/ts"}, true},
		{"excluded member, absent", `{"a":1,"ts":5}`, `{"a":1}`, nil, []string{"/ts"}, true},
		{"excluded below", `{"m":{"ts":5,"x":1}}`, `{"m":{"ts":6,"x":1}}`, nil, []string{"/m/ts"}, true},
		{"excluded below, others count", `{"m":{"ts":5,"x":1}}`, `{"m":{"ts":5,"x":2}}`, nil, []string{"/m/ts"}, false},
		{"excluded element", `[1,2]`, `[9,2]`, nil, []string{"/0"}, true},
		{"excluded element leaves its place", `[1,2]`, `[2]`, nil, []string{"/0"}, false},
		{"excluded name with slash and tilde", `{"a/b~c":1}`, `{"a/b~c":2}`, nil, []string{"/a~1b~0c"}, true},
		{"included only", `{"a":1,"b":2}`, `{"a":1,"b":3}`, []string{"/a"}, nil, true},
		{"included differs", `{"a":1,"b":2}`, `{"a":2,"b":2}`, []string{"/a"}, nil, false},
		{"included null and absent", `{"a":null}`, `{}`, []string{"/a"}, nil, false},
		{"included parts do not mix", `{"a":1}`, `{"b":1}`, []string{"/a", "/b"}, nil, false},
		{"included, with an exclusion inside", `{"a":{"x":1,"ts":1}}`, `{"a":{"x":1,"ts":2}}`, []string{"/a"}, []string{"/a/ts"}, true},
	} {
		a, err1 := jsonbody.AppendCanonical(nil, []byte(c.a), pointers(t, c.include...), pointers(t, c.exclude...))
		b, err2 := jsonbody.AppendCanonical(nil, []byte(c.b), pointers(t, c.include...), pointers(t, c.exclude...))
		if err1 != nil || err2 != nil || bytes.Equal(a, b) != c.same {
			t.Errorf("%s: %s and %s: %q and %q, %v %v, want same %v", c.name, c.a, c.b, a, b, err1, err2, c.same)
		}
	}
}

func TestWhatParsersDisagreeAboutIsRefused(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"duplicate member":          `{"a":1,"a":2}`,
		"duplicate member, escaped": `{"a":1,"\u0061":2}`,
		"duplicate member, equal":   `{"a":1,"a":1}`,
		"bad UTF-8":                 "\"\xff\"",
		"bad UTF-8 in a name":       "{\"\xff\":1}",
		"surrogate as UTF-8":        "\"\xed\xa0\x80\"",
		"half a surrogate pair":     `"\ud83d"`,
		"the other half":            `"\ude00"`,
		"two first halves":          `"\ud83d\ud83d"`,
		"control character":         "\"a\nb\"",
		"leading zero":              `01`,
		"plus":                      `+1`,
		"no digits after the point": `1.`,
		"no digits in the exponent": `1e`,
		"NaN":                       `NaN`,
		"trailing comma":            `[1,]`,
		"trailing comma in object":  `{"a":1,}`,
		"comment":                   `{/**/}`,
		"single quotes":             `{'a':1}`,
		"two values":                `1 2`,
		"byte order mark":           "\xef\xbb\xbf{}",
		"empty":                     ``,
		"unfinished":                `{"a":`,
		"unfinished string":         `"a`,
		"unfinished escape":         `"\`,
		"unknown escape":            `"\x41"`,
		"short unicode escape":      `"\u12"`,
		"nested too deeply":         strings.Repeat("[", 600) + strings.Repeat("]", 600),
		"truth":                     `truth`,
	} {
		out, err := jsonbody.AppendCanonical(nil, []byte(body), nil, nil)
		if !errors.Is(err, jsonbody.ErrInvalid) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	const body = `{"a":{"b":["x",{"c":"y"}]},"":"z","n":1}`
	for p, want := range map[string]string{"/a/b/0": "x", "/a/b/1/c": "y", "/": "z", "/a/b/00": "", "/a/b/2": "", "/a/b/-": "", "/x": "", "/n/x": ""} {
		s, found, err := jsonbody.String([]byte(body), pointers(t, p)[0])
		if err != nil || s != want || found != (want != "") {
			t.Errorf("%s: %q %v %v, want %q", p, s, found, err, want)
		}
	}
	for _, p := range []string{"/n", "/a", "", "/a/b"} {
		if _, _, err := jsonbody.String([]byte(body), pointers(t, p)[0]); !errors.Is(err, jsonbody.ErrInvalid) {
			t.Errorf("%s is no string: %v", p, err)
		}
	}
}

// What is accepted is JSON, and bodies that look alike are equal to every
// reader that keeps number literals.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,null,"\u00e9"]}`, `[1.50,-0,1e9]`, `"\ud83d\ude00"`, `{"":{}}`, `{"a":1,"a":2}`, "\"\xff\""} {
		f.Add([]byte(s), []byte(`{"b":[true,null,"é"],"a":1}`))
	}
	read := func(b []byte) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ca, err := jsonbody.AppendCanonical(nil, a, nil, nil)
		if err != nil {
			return
		}
		va, err := read(a)
		if err != nil || !utf8.Valid(a) {
			t.Fatalf("%q was accepted and is no JSON: %v", a, err)
		}
		cb, err := jsonbody.AppendCanonical(nil, b, nil, nil)
		if err != nil {
			return
		}
		vb, err := read(b)
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if bytes.Equal(ca, cb) != reflect.DeepEqual(va, vb) {
			t.Fatalf("%q and %q: canonical %q and %q", a, b, ca, cb)
		}
	})
}
