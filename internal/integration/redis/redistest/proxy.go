package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between clients and a server, and can lose exactly one reply.
type Proxy struct {
	// Addr is where clients connect.
	Addr string

	target   atomic.Pointer[string]
	listener net.Listener
	lose     atomic.Pointer[loss]
	served   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // both sides of every connection
}

type loss struct {
	command []byte
	fired   chan struct{}
}

// Between starts a proxy to server that ends with the test.
func Between(t testing.TB, server *Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), listener: l, conns: make(map[net.Conn]bool)}
	p.target.Store(&server.Addr)
	p.served.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.served.Wait()
	})
	return p
}

// LoseReply forwards the next request that contains command, upper or lower
// case, throws its reply away and cuts the connection. The channel is closed when that
// has happened: the server has run the command, and the client will not know.
func (p *Proxy) LoseReply(command string) <-chan struct{} {
	l := &loss{command: bytes.ToUpper([]byte(command)), fired: make(chan struct{})}
	p.lose.Store(l)
	return l.fired
}

// Cut ends every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Sever ends every connection, and lets no new one through.
func (p *Proxy) Sever() {
	p.listener.Close()
	p.Cut()
}

// Retarget ends every connection, and leads new ones to server.
func (p *Proxy) Retarget(server *Server) {
	p.target.Store(&server.Addr)
	p.Cut()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", *p.target.Load())
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		var losing atomic.Pointer[loss]
		var both sync.WaitGroup
		both.Go(func() {
			p.pass(client, server, func(b []byte) bool {
				if l := p.lose.Load(); l != nil && bytes.Contains(bytes.ToUpper(b), l.command) && p.lose.CompareAndSwap(l, nil) {
					losing.Store(l)
				}
				return true
			})
		})
		both.Go(func() {
			p.pass(server, client, func([]byte) bool {
				l := losing.Load()
				if l != nil {
					close(l.fired)
				}
				return l == nil
			})
		})
		p.served.Go(func() {
			both.Wait()
			p.mu.Lock()
			delete(p.conns, client)
			delete(p.conns, server)
			p.mu.Unlock()
		})
	}
}

// pass copies until either side ends, or keep says to lose what was read.
func (p *Proxy) pass(from, to net.Conn, keep func([]byte) bool) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if !keep(b[:n]) {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
