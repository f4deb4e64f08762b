package tour

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// request is one request of a scene.
type request struct {
	path   string
	user   string
	key    string // Idempotency-Key as it is sent; "" sends none
	body   string
	header http.Header // what else is sent, of which a caller may repeat or leave out all
}

// with returns r with another header.
func (r request) with(name, value string) request {
	r.header = r.header.Clone()
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
	return r
}

// String says what is sent, in one line.
func (r request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s", r.path)
	if r.key != "" {
		fmt.Fprintf(&b, "  key %s", r.key)
	}
	if r.user != defaultUser {
		fmt.Fprintf(&b, "  user %s", r.user)
	}
	fmt.Fprintf(&b, "  %s", r.body)
	for name, values := range r.header {
		fmt.Fprintf(&b, "  %s: %s", name, strings.Join(values, ", "))
	}
	return b.String()
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // no answer came back
}

// kind is what sort of answer it is, in a word or two: "first", "replayed", or
// the end of the problem's type.
func (a answer) kind() string {
	switch {
	case a.err != nil:
		return "no answer"
	case a.header.Get("Idempotent-Replayed") == "true":
		return "replayed"
	case a.status < 300:
		return "first"
	case strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json"):
		var p struct{ Type string }
		if json.Unmarshal(a.body, &p) == nil && p.Type != "" {
			return p.Type[strings.LastIndexAny(p.Type, "/#:")+1:]
		}
	}
	return strings.ToLower(http.StatusText(a.status))
}

// String says what came back, in one line.
func (a answer) String() string {
	if a.err != nil {
		return "no answer: the connection broke"
	}
	s := fmt.Sprintf("%d %s", a.status, a.kind())
	if strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json") {
		var p struct{ Detail string }
		if json.Unmarshal(a.body, &p) == nil && p.Detail != "" {
			detail, _, _ := strings.Cut(p.Detail, ". ") // the first sentence says enough
			return s + ": " + strings.TrimSuffix(detail, ".")
		}
	}
	if len(a.body) > 200 {
		return fmt.Sprintf("%s  %d bytes", s, len(a.body))
	}
	return s + "  " + string(bytes.TrimSpace(a.body))
}

// fresh names the headers that belong to the message and not to the answer.
var fresh = []string{"Date", "Idempotent-Replayed", "Idempotency-Expires"}

// wire is the answer as bytes, without the headers in fresh.
func (a answer) wire() string {
	h := a.header.Clone()
	for _, name := range fresh {
		h.Del(name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", a.status)
	_ = h.Write(&b) // in alphabetical order; a Builder takes everything
	b.WriteString("\n")
	b.Write(a.body)
	return b.String()
}

// client sends requests. It never sends one twice by itself.
type client struct {
	http *http.Client
	sent atomic.Int64 // requests that were not questions to the ledger
}

func newClient() *client {
	return &client{http: &http.Client{
		Timeout: 2 * time.Minute,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 256,
			MaxConnsPerHost:     256,
			DisableCompression:  true,
		},
	}}
}

// once is a body that the transport cannot rewind. Go's transport would else
// send a request with an Idempotency-Key again when a reused connection breaks.
type once struct{ io.Reader }

func (c *client) send(ctx context.Context, server string, r request) answer {
	c.sent.Add(1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+r.path, once{strings.NewReader(r.body)})
	if err != nil {
		return answer{err: err}
	}
	req.ContentLength = int64(len(r.body))
	req.Header = r.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-User-ID", r.user)
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	return read(c.http.Do(req))
}

func read(resp *http.Response, err error) answer {
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{err: err}
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}

// charge is one charge in the ledger.
type charge struct {
	PaymentID string `json:"payment_id"`
}

// ledger returns the charges that the ledger holds for order.
func (c *client) ledger(ctx context.Context, server, order string) ([]charge, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/ledger?order_id="+url.QueryEscape(order), nil)
	if err != nil {
		return nil, err
	}
	a := read(c.http.Do(req))
	if a.err != nil {
		return nil, fmt.Errorf("ask the ledger: %w", a.err)
	}
	var l struct {
		Count   *int     `json:"count"`
		Charges []charge `json:"charges"`
	}
	if err := json.Unmarshal(a.body, &l); err != nil || a.status != http.StatusOK || l.Count == nil || *l.Count != len(l.Charges) {
		return nil, fmt.Errorf("ask the ledger: %s", a)
	}
	return l.Charges, nil
}

// sendRaw sends lines as they are, after those of the request, over a
// connection of its own: no client library would send some of them.
func (c *client) sendRaw(ctx context.Context, server string, r request, lines ...string) answer {
	c.sent.Add(1)
	host := strings.TrimPrefix(server, "http://")
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return answer{err: err}
	}
	defer io.Closer(conn).Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return answer{err: err}
	}
	head := []string{
		"POST " + r.path + " HTTP/1.1", "Host: " + host, "Connection: close", "Content-Type: application/json",
		"X-User-ID: " + r.user, fmt.Sprintf("Content-Length: %d", len(r.body)),
	}
	if _, err := io.WriteString(conn, strings.Join(append(head, lines...), "\r\n")+"\r\n\r\n"+r.body); err != nil {
		return answer{err: err}
	}
	return read(http.ReadResponse(bufio.NewReader(conn), nil))
}
