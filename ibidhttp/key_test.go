package ibidhttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, key string // key "" is refused
		why        string
	}{
		{`abc`, `abc`, "the bare form stands for itself"},
		{`"abc"`, `abc`, "the quoted form is the same key"},
		{" \tabc ", `abc`, "white space around a field value does not count"},
		{`"a b"`, `a b`, "a quoted key may have spaces"},
		{`" "`, ` `, "inside of quotes a space is a character"},
		{`"a\"b"`, `a"b`, "escaped quote"},
		{`"a\\b"`, `a\b`, "escaped backslash"},
		{`a=b/c+d:e`, `a=b/c+d:e`, "base64 and paths need no quotes"},
		{`abc"`, ``, "half a quoted string"},
		{`"abc`, ``, "half a quoted string"},
		{`"abc\"`, ``, "the last quote is escaped"},
		{`"a\b"`, ``, "only quote and backslash are escaped"},
		{`"abc"x`, ``, "something follows the string"},
		{`"abc";v=1`, ``, "parameters would make two spellings of one key"},
		{`"a", "b"`, ``, "two lines joined by a proxy"},
		{`a, b`, ``, "two lines joined by a proxy"},
		{`a b`, ``, "a bare key has no spaces"},
		{`a;b`, ``, "a token with a parameter"},
		{`a\b`, ``, "an escape without quotes"},
		{``, ``, "empty"},
		{`   `, ``, "empty"},
		{`""`, ``, "empty, in quotes"},
		{"a\x00b", ``, "control byte"},
		{"a\tb", ``, "control byte"},
		{"\"a\tb\"", ``, "control byte in quotes"},
		{"a\x7fb", ``, "DEL"},
		{"caf\xc3\xa9", ``, "not ASCII"},
		{"\"caf\xc3\xa9\"", ``, "not ASCII, in quotes"},
	} {
		key, err := ibidhttp.ParseKey(c.value)
		if key != c.key || (err != nil) != (c.key == "") {
			t.Errorf("%q: key %q, error %v, want %q: %s", c.value, key, err, c.key, c.why)
		}
	}
}

// The rule of ParseKey: a key has its quoted form, and its bare form where it
// has one, and no other value stands for it.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`abc`, `"abc"`, `"a\"b"`, `a, b`, `"a\\"`, ` x`, `""`, "\"a\x80\""} {
		f.Add(s)
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, value string) {
		key, err := ibidhttp.ParseKey(value)
		if err != nil {
			if key != "" {
				t.Fatalf("%q: key %q beside %v", value, key, err)
			}
			return
		}
		quoted := `"` + quote.Replace(key) + `"`
		if trimmed := strings.Trim(value, " \t"); trimmed != key && trimmed != quoted {
			t.Fatalf("%q stands for %q, whose forms are %q and %q", value, key, key, quoted)
		}
		if again, err := ibidhttp.ParseKey(quoted); err != nil || again != key {
			t.Fatalf("%q: its quoted form %q is %q, %v", value, quoted, again, err)
		}
		for i := range len(key) {
			if key[i] < ' ' || key[i] > '~' {
				t.Fatalf("%q: byte %#x in the key", value, key[i])
			}
		}
	})
}

// Different method, path and key never make the same ID.
func FuzzKeyIDIsInjective(f *testing.F) {
	f.Add("POST", "/a", "b", "POST", "/", "ab")
	f.Add("POST", "/a1:b", "c", "POST", "/a", "1:bc")
	f.Fuzz(func(t *testing.T, m1, p1, k1, m2, p2, k2 string) {
		same := m1 == m2 && p1 == p2 && k1 == k2
		if (ibidhttp.KeyID(m1, p1, k1) == ibidhttp.KeyID(m2, p2, k2)) != same {
			t.Fatalf("%q %q %q and %q %q %q", m1, p1, k1, m2, p2, k2)
		}
	})
}

func TestMalformedKeysRunNothing(t *testing.T) {
	t.Parallel()
	uuid := &ibidhttp.Options{KeyFormat: ibidhttp.UUID}
	for _, c := range []struct {
		name string
		opts *ibidhttp.Options
		keys []string
		says string
	}{
		{"empty", nil, []string{""}, "empty"},
		{"empty string", nil, []string{`""`}, "empty"},
		{"two lines", nil, []string{"a", "b"}, "more than one"},
		{"two equal lines", nil, []string{"a", "a"}, "more than one"},
		{"two lines in one", nil, []string{"a, a"}, "quoted"},
		{"256 bytes", nil, []string{strings.Repeat("k", 256)}, "at most 255"},
		{"256 bytes in quotes", nil, []string{`"` + strings.Repeat("k", 256) + `"`}, "at most 255"},
		{"not ASCII", nil, []string{"k\xff"}, "printable ASCII"},
		{"below MinLength", &ibidhttp.Options{MinLength: 16}, []string{"short"}, "at least 16"},
		{"above MaxLength", &ibidhttp.Options{MaxLength: 64}, []string{strings.Repeat("k", 65)}, "at most 64"},
		{"no UUID", uuid, []string{"5f0c1c5e7a3c4a599d0a000000000001"}, "UUID"},
		{"no UUID, right length", uuid, []string{"5f0c1c5e-7a3c-4a59-9d0a-00000000000g"}, "UUID"},
		{"format of one's own", &ibidhttp.Options{KeyFormat: func(string) error { return errors.New("begin with pay_") }}, []string{"k"}, "Begin with pay_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.opts, created())
			r := request("", "{}")
			r.Header["Idempotency-Key"] = c.keys
			w := s.do(r)
			wantProblem(t, w, 400, ibidhttp.TypeKeyMalformed)
			if !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s does not say %q", w.Body, c.says)
			}
			s.wantRuns(0)
			if s.store.asked("begin") > 1 { // one is the engine's own
				t.Error("the store was asked")
			}
		})
	}
	for _, key := range []string{strings.Repeat("k", 255), `"` + strings.Repeat(`\"`, 255) + `"`} {
		s := serve(t, nil, created())
		if w := s.post(key, "{}"); w.Code != 201 {
			t.Errorf("255 bytes are refused: %s", w.Body)
		}
	}
	if err := ibidhttp.UUID("5F0C1C5E-7a3c-4a59-9d0a-000000000001"); err != nil {
		t.Error(err)
	}
}

// What reaches the server is not what a client library would send.
func TestMalformedKeysOverARawSocket(t *testing.T) {
	t.Parallel()
	s := serve(t, &ibidhttp.Options{Required: true}, created())
	srv := httptest.NewServer(s.handler)
	t.Cleanup(srv.Close)
	for _, c := range []struct {
		name, lines string
		status      int
	}{
		{"two lines", "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", 400},
		{"two lines in other case", "Idempotency-Key: a\r\nidempotency-key: a\r\n", 400},
		{"empty line", "Idempotency-Key:\r\n", 400},
		{"only spaces", "Idempotency-Key:   \r\n", 400},
		{"control byte", "Idempotency-Key: a\x01b\r\n", 400},
		{"bare carriage return", "Idempotency-Key: a\rb\r\n", 400},
		{"NUL", "Idempotency-Key: a\x00b\r\n", 400},
		{"folded line", "Idempotency-Key: a\r\n b\r\n", 400},
		{"bytes above ASCII", "Idempotency-Key: \xe2\x82\xac\r\n", 400},
		{"joined values", "Idempotency-Key: \"a\", \"b\"\r\n", 400},
		{"256 bytes", "Idempotency-Key: " + strings.Repeat("k", 256) + "\r\n", 400},
		{"space before the colon", "Idempotency-Key : a\r\n", 400},
		{"none", "", 400},
		{"a good one", "Idempotency-Key: good\r\n", 201},
		{"the same in quotes", "iDEMPOTENCY-kEY:  \"good\"  \r\n", 201},
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: x\r\nX-User-Id: u-1\r\n%sContent-Length: 2\r\nConnection: close\r\n\r\n{}", c.lines)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		conn.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, resp.StatusCode, c.status, body)
		}
	}
	s.wantRuns(1)
}

func TestKeysFromOtherPlaces(t *testing.T) {
	t.Parallel()
	natural := ibidhttp.FromFunc(func(r *http.Request, body []byte) (string, error) {
		if r.Header.Get("X-Order") == "bad" {
			return "", errors.New("the order does not exist")
		}
		return r.Header.Get("X-Order"), nil
	})
	ref := ibidhttp.FromBody("/meta/reference")
	const withRef = `{"amount":1,"meta":{"reference":"r-1"}}`
	for _, c := range []struct {
		name   string
		key    ibidhttp.Carrier
		first  *http.Request
		second *http.Request
		status int // of the second
		runs   int64
	}{
		{"another header", ibidhttp.FromHeader("x-request-key"), request("", "{}", "X-Request-Key: k"), request("", "{}", "X-Request-Key: k"), 201, 1},
		{"a member of the body", ref, request("", withRef), request("", withRef), 201, 1},
		{"a member of the body, other content", ref, request("", withRef), request("", strings.Replace(withRef, "1", "2", 1)), 422, 1},
		{"the body has no such member", ref, request("", `{"amount":1}`), request("", `{"amount":1}`), 201, 2},
		{"the body is not JSON", ref, request("", "a=b", "Content-Type: text/plain"), request("", "a=b", "Content-Type: text/plain"), 201, 2},
		{"the member is no string", ref, request("", withRef), request("", `{"meta":{"reference":1}}`), 400, 1},
		{"the member is empty", ref, request("", withRef), request("", `{"meta":{"reference":""}}`), 400, 1},
		{"the member is there twice", ref, request("", withRef), request("", `{"meta":{"reference":"r-1","reference":"r-2"}}`), 400, 1},
		{"the member has a control character", ref, request("", withRef), request("", `{"meta":{"reference":"r\u0000"}}`), 400, 1},
		{"the JSON ends early", ref, request("", withRef), request("", `{"meta":{"reference":"r-1"}`), 400, 1},
		{"a natural key", natural, request("", "{}", "X-Order: o-1"), request("", "{}", "X-Order: o-1"), 201, 1},
		{"a natural key, another order", natural, request("", "{}", "X-Order: o-1"), request("", "{}", "X-Order: o-2"), 201, 2},
		{"a natural key that cannot be made", natural, request("", "{}", "X-Order: o-1"), request("", "{}", "X-Order: bad"), 400, 1},
		{"first of header and body: the header", ibidhttp.FirstOf(ibidhttp.FromHeader("Idempotency-Key"), ref), request("k", withRef), request("k", withRef), 201, 1},
		{"first of header and body: the body", ibidhttp.FirstOf(ibidhttp.FromHeader("Idempotency-Key"), ref), request("", withRef), request("", withRef), 201, 1},
		{"first of header and body: the same text is two keys", ibidhttp.FirstOf(ibidhttp.FromHeader("Idempotency-Key"), ref), request("r-1", withRef), request("", withRef), 201, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var bodies []string
			h := created()
			s := serve(t, &ibidhttp.Options{Key: c.key}, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(b))
				h(w, r)
			})
			sent, _ := io.ReadAll(c.first.Body)
			c.first.Body = io.NopCloser(strings.NewReader(string(sent)))
			if w := s.do(c.first); w.Code != 201 {
				t.Fatalf("first: %d %s", w.Code, w.Body)
			}
			w := s.do(c.second)
			if w.Code != c.status {
				t.Errorf("second: %d %s, want %d", w.Code, w.Body, c.status)
			}
			s.wantRuns(c.runs)
			if bodies[0] != string(sent) {
				t.Errorf("the handler read %q of %q", bodies[0], sent)
			}
		})
	}
}

// The ID that operators use is the one that requests get.
func TestKeyIDIsThatOfRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, created())
	s.do(at(request(`"k 1"`, "{}"), "POST", "/payments/%C3%A9/x?q=1"))
	key := ibid.Key{Scope: "u-1", ID: ibidhttp.KeyID("POST", "/payments/é/x", "k 1")}
	op, err := s.engine.Inspect(t.Context(), s.engine.Digest(key))
	if err != nil || op.Record.State != ibid.Completed {
		t.Errorf("state %v, %v", op.Record.State, err)
	}
}
