package answer_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ibid-go/ibid/ibidhttp/internal/answer"
)

var samples = []answer.Answer{
	{Status: 200},
	{Status: 204, NoType: true},
	{Status: 201, Fields: []answer.Field{{Name: "Location", Value: "/p/1"}, {Name: "Link", Value: "<a>"}, {Name: "Link", Value: "<b>, <c>"}}, Body: []byte("{}")},
	{Status: 200, Fields: []answer.Field{{Name: "X", Value: ""}, {Name: "Digest", Value: "a=b", Trailer: true}}, Body: bytes.Repeat([]byte("x"), 300)},
	{Status: 201, NotKept: true, Fields: []answer.Field{{Name: "Location", Value: "/p/1"}}},
	{Status: 999, Fields: []answer.Field{{Name: "X-Latin", Value: "caf\xe9"}, {Name: "X-Long", Value: strings.Repeat("v", 5000)}}},
}

func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	t.Parallel()
	for _, want := range samples {
		var got answer.Answer
		if err := got.Decode(want.Append(nil)); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if len(got.Fields) == 0 {
			got.Fields = nil
		}
		if len(got.Body) == 0 {
			got.Body = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestLiveFieldsAreNotRecorded(t *testing.T) {
	t.Parallel()
	a := answer.Answer{Status: 200, Fields: []answer.Field{{Name: "Set-Cookie", Value: "s=1", Live: true}, {Name: "A", Value: "b"}}}
	if enc := a.Append(nil); bytes.Contains(enc, []byte("s=1")) {
		t.Errorf("recorded: %q", enc)
	}
}

func TestDecodeRefusesWhatNoHandlerWrote(t *testing.T) {
	t.Parallel()
	field := func(name, value string) []byte {
		a := answer.Answer{Status: 200, Fields: []answer.Field{{Name: name, Value: value}}}
		return a.Append(nil)
	}
	for _, c := range []struct {
		name, why string
		b         []byte
	}{
		{"nothing", "an empty record is not an empty answer", nil},
		{"other version", "an older program must not guess at a newer format", []byte{2, 0, 200, 1, 0, 0}},
		{"unknown flag", "a flag may change the meaning of all that follows", []byte{1, 0x80, 200, 1, 0, 0}},
		{"status 103", "an interim answer is never final", []byte{1, 0, 103, 0, 0, 0}},
		{"more fields than bytes", "memory must not be allocated for a lie", []byte{1, 0, 200, 1, 255, 255, 255, 255, 7, 0}},
		{"line break in a value", "response splitting", field("X", "a\r\nSet-Cookie: s=1")},
		{"NUL in a value", "parsers disagree where the value ends", field("X", "a\x00b")},
		{"space in a name", "the server would drop or rewrite it", field("X Y", "a")},
		{"empty name", "no field", field("", "a")},
		{"Transfer-Encoding", "it would change the framing of the answer", field("transfer-encoding", "chunked")},
		{"Content-Length", "it is derived from the body", field("Content-Length", "7")},
		{"Connection", "it belongs to another connection", field("Connection", "upgrade")},
	} {
		var a answer.Answer
		if err := a.Decode(c.b); !errors.Is(err, answer.ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged: %s", c.name, err, c.why)
		}
	}
}

// Every byte of a recorded answer changed, and every truncation: the outcome is
// an error, or an answer that is fit for the wire.
func FuzzDecode(f *testing.F) {
	for _, a := range samples {
		f.Add(a.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a answer.Answer
		if err := a.Decode(b); err != nil {
			if !errors.Is(err, answer.ErrDamaged) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if a.Status < 200 || a.Status > 999 {
			t.Fatalf("status %d", a.Status)
		}
		for _, fd := range a.Fields {
			if strings.ContainsAny(fd.Name+fd.Value, "\r\n\x00") || fd.Name == "" || strings.ContainsAny(fd.Name, " :\t") {
				t.Fatalf("field %q: %q", fd.Name, fd.Value)
			}
			if answer.CleanValue(fd.Value) != fd.Value {
				t.Fatalf("value %q is not clean", fd.Value)
			}
		}
		var again answer.Answer
		if err := again.Decode(a.Append(nil)); err != nil || !reflect.DeepEqual(a.Fields, again.Fields) || !bytes.Equal(a.Body, again.Body) {
			t.Fatalf("does not survive another round: %v", err)
		}
	})
}
