package ibidhttp_test

import (
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

func TestAnswerDecodesToWhatWasEncoded(t *testing.T) {
	t.Parallel()
	want := ibidhttp.Answer{
		Status:  201,
		Header:  http.Header{"Content-Type": {"text/plain"}, "Link": {"<a>", "<b>"}},
		Trailer: http.Header{"X-Sum": {"1"}},
		Body:    []byte("paid"),
	}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ibidhttp.DecodeAnswer(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnswerRefusesWhatNoHandlerCouldAnswer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		a    ibidhttp.Answer
	}{
		{"an informational status is not final", ibidhttp.Answer{Status: 103}},
		{"a status of four digits is none", ibidhttp.Answer{Status: 2010}},
		{"a line break in a value would split the answer", ibidhttp.Answer{Status: 200, Header: http.Header{"A": {"b\r\nC: d"}}}},
		{"a space in a name would split the answer", ibidhttp.Answer{Status: 200, Header: http.Header{"A b": {"c"}}}},
		{"a hop-by-hop header belongs to the connection", ibidhttp.Answer{Status: 200, Header: http.Header{"Connection": {"close"}}}},
		{"a length is the message's own", ibidhttp.Answer{Status: 200, Header: http.Header{"Content-Length": {"3"}}}},
	} {
		if _, err := row.a.Encode(); !errors.Is(err, ibid.ErrInvalid) {
			t.Errorf("%s: Encode returned %v", row.name, err)
		}
	}
}
