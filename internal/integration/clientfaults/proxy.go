package clientfaults

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"
)

// Fault is what happens to one request on its way.
type Fault uint8

// The faults. Those marked with an asterisk let the server act and lose its
// answer.
const (
	None        Fault = iota
	LoseRequest       // the connection is reset before the server hears of the request
	CutRequest        // the server gets half of the request
	LoseAnswer        // * the connection is reset instead of an answer
	CutAnswer         // * the connection is reset after half of the answer
	Swallow           // * no answer ever comes
	BadGateway        // * 502 instead of the answer
	DelayAnswer       // the answer comes late
	Duplicate         // the server gets the request twice at the same time
	Echo              // the server gets the request a second time after it was answered
	faults
)

// String returns the fault in words.
func (f Fault) String() string {
	names := [faults]string{
		"none", "request lost", "request cut", "answer lost", "answer cut", "answer swallowed",
		"bad gateway", "answer delayed", "request duplicated", "request echoed",
	}
	return names[f]
}

// Proxy forwards HTTP/1.1 requests to one server, and does to each of them what its
// plan says.
type Proxy struct {
	target   string // host:port
	plan     func() Fault
	listener net.Listener
	hang     time.Duration // how long a swallowed answer keeps its connection
	hooks    Hooks

	mu     sync.Mutex
	counts [faults]int
	open   map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

// Hooks are called while a request waits for them to return. Nil is none.
type Hooks struct {
	Request func() // the proxy has the request, the server has nothing of it
	Answer  func() // the server has answered, the client has nothing of it
}

// NewProxy listens on loopback and forwards to target until Close. The plan is called
// once per request, from several goroutines.
func NewProxy(target string, plan func() Fault, hooks Hooks) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		target: target, plan: plan, listener: l, hooks: hooks,
		hang: 5 * time.Second, open: make(map[net.Conn]bool),
	}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	return p, nil
}

// URL is where to send requests, without a slash at the end.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Counts returns how often each fault happened.
func (p *Proxy) Counts() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := make(map[Fault]int)
	for f, n := range p.counts {
		m[Fault(f)] = n
	}
	return m
}

// Close ends all connections and waits for what was still being sent.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// track notes an open connection; false when the proxy is closed.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.open[c] = true
	}
	return !p.closed
}

func (p *Proxy) end(c net.Conn) {
	c.Close()
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

func (p *Proxy) serve(client net.Conn) {
	defer p.end(client)
	if !p.track(client) {
		return
	}
	in := bufio.NewReader(client)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		raw, err := httputil.DumpRequest(req, true)
		if err != nil {
			return
		}
		f := p.plan()
		p.mu.Lock()
		p.counts[f]++
		p.mu.Unlock()
		if !p.forward(client, raw, f) {
			return
		}
	}
}

// forward does f to one request, and reports whether the client's connection
// goes on.
func (p *Proxy) forward(client net.Conn, raw []byte, f Fault) bool {
	if p.hooks.Request != nil {
		p.hooks.Request()
	}
	switch f {
	case LoseRequest:
		reset(client)
		return false
	case CutRequest:
		if server, err := net.Dial("tcp", p.target); err == nil {
			_, _ = server.Write(raw[:len(raw)-len(raw)/4])
			server.Close()
		}
		reset(client)
		return false
	case Duplicate:
		p.wg.Go(func() { _, _ = p.ask(raw) }) // nobody waits for its answer
	}
	answer, err := p.ask(raw)
	if err != nil {
		reset(client)
		return false
	}
	if p.hooks.Answer != nil {
		p.hooks.Answer()
	}
	switch f {
	case LoseAnswer:
		reset(client)
		return false
	case CutAnswer:
		_, _ = client.Write(answer[:rand.N(len(answer))])
		reset(client)
		return false
	case Swallow:
		_ = client.SetReadDeadline(time.Now().Add(p.hang))
		_, _ = io.Copy(io.Discard, client) // until the client gives up
		return false
	case BadGateway:
		answer = []byte("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
	case DelayAnswer:
		time.Sleep(rand.N(100 * time.Millisecond))
	case Echo:
		p.wg.Go(func() {
			time.Sleep(rand.N(200 * time.Millisecond))
			_, _ = p.ask(raw) // nobody waits for its answer
		})
	}
	_, err = client.Write(answer)
	return err == nil
}

// ask sends a request on a connection of its own and returns the answer whole.
func (p *Proxy) ask(raw []byte) ([]byte, error) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return nil, err
	}
	if !p.track(server) {
		server.Close()
		return nil, net.ErrClosed
	}
	defer p.end(server)
	if _, err := server.Write(raw); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(server), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength, resp.TransferEncoding = int64(len(body)), nil
	var out bytes.Buffer
	if err := resp.Write(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// reset closes a connection so that the other side sees it broken.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // without it the close is an orderly one, and a fault all the same
	}
	c.Close()
}

// Plan returns a plan that does one of the faults, chosen at random, to the
// given share of requests. The same seed makes the same sequence.
func Plan(seed uint64, share float64) func() Fault {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0))
	return func() Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Float64() >= share {
			return None
		}
		return Fault(1 + r.IntN(int(faults)-1))
	}
}
