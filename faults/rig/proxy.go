package rig

import (
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections to a server, and can cut them.
type Proxy struct {
	listener    net.Listener
	network, to string
	forward     func(client, server net.Conn)
	running     sync.WaitGroup

	mu   sync.Mutex
	cut  bool                  // guarded by mu
	open map[net.Conn]struct{} // to both sides; guarded by mu
}

// NewProxy starts a proxy for the server at an address. It calls forward for each connection, and closes both sides
// when that returns. The end of the test stops the proxy.
func NewProxy(t testing.TB, network, to string, forward func(client, server net.Conn)) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, network: network, to: to, forward: forward, open: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.SetCut(true)
		p.running.Wait()
	})
	return p
}

// Addr returns the address of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetCut closes every connection and refuses new ones, or accepts them again.
func (p *Proxy) SetCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut = cut; !cut {
		return
	}
	for c := range p.open {
		_ = c.Close()
	}
}

// track adds a connection, and closes it if the proxy is cut. The caller must call untrack, which closes the
// connection.
func (p *Proxy) track(c net.Conn) (untrack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = struct{}{}
	if p.cut {
		_ = c.Close()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		p.running.Go(func() {
			defer p.track(client)()
			server, err := net.Dial(p.network, p.to)
			if err != nil {
				return
			}
			defer p.track(server)()
			p.forward(client, server)
		})
	}
}
