package servers

import (
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy that can lose an answer. It listens on loopback.
type Proxy struct {
	Addr   string
	listen net.Listener
	to     string
	done   sync.WaitGroup

	mu     sync.Mutex
	armed  bool
	fired  int
	when   func(sent []byte) bool
	conns  map[net.Conn]bool
	refuse bool
}

// NewProxy returns a proxy to an address, which ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), listen: l, to: to, conns: make(map[net.Conn]bool)}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.done.Wait()
	})
	return p
}

// SwallowReply arms the proxy once: the next request for which when holds
// reaches the server, its answer is thrown away, and the connection cut.
func (p *Proxy) SwallowReply(when func(sent []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.when = true, when
}

// Fired returns how many answers were lost.
func (p *Proxy) Fired() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired
}

// Cut ends every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Refuse cuts every connection and, until it is called with false, every new one.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.Cut()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		if refuse {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		swallow := new(sync.Map) // set once the answer is to be lost
		p.done.Go(func() { p.copy(server, client, func(b []byte) bool { return p.asked(b, swallow) }) })
		p.done.Go(func() { p.copy(client, server, func([]byte) bool { return p.answered(swallow) }) })
	}
}

// asked passes a request on, and notes whether its answer is to be lost.
func (p *Proxy) asked(sent []byte, swallow *sync.Map) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed && p.when(sent) {
		p.armed = false
		swallow.Store("on", true)
	}
	return true
}

// answered reports whether an answer may pass; the first that may not ends the
// connection.
func (p *Proxy) answered(swallow *sync.Map) bool {
	if _, on := swallow.Load("on"); !on {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fired++
	return false
}

func (p *Proxy) copy(to, from net.Conn, pass func([]byte) bool) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
		p.mu.Lock()
		delete(p.conns, to)
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !pass(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
