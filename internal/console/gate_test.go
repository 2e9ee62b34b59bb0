package console_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gateIP is the address of gates only, so that no other program receives the port of a closed gate from the kernel.
const gateIP = "127.0.0.3"

// gate is a way to the server of a harness that a test closes, as if the server were away, and opens again at the same
// address.
type gate struct {
	t       *testing.T
	address string
	server  string
	running sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener      // guarded by mu; nil: closed
	open     map[net.Conn]bool // guarded by mu
}

// startGate puts a gate before the server of a harness.
func startGate(t *testing.T, h *harness) *gate {
	t.Helper()
	g := &gate{t: t, address: gateIP + ":0", server: h.host, open: map[net.Conn]bool{}}
	g.unlock()
	g.address = g.listener.Addr().String()
	h.host = g.address
	t.Cleanup(func() {
		g.lock()
		g.running.Wait()
	})
	return g
}

// unlock opens the gate.
func (g *gate) unlock() {
	g.t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(g.t.Context(), "tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.listener = l
	g.mu.Unlock()
	g.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			g.running.Go(func() { g.forward(client) })
		}
	})
}

// lock closes the gate and every connection through it.
func (g *gate) lock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil {
		return
	}
	_ = g.listener.Close()
	g.listener = nil
	for c := range g.open {
		_ = c.Close()
	}
}

// keep reports whether a connection may go on.
func (g *gate) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[c] = true
	return g.listener != nil
}

func (g *gate) forward(client net.Conn) {
	defer client.Close()
	var dialer net.Dialer
	server, err := dialer.Dial("tcp", g.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !g.keep(client) || !g.keep(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(server, client) // ends with either connection
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	both.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, client)
	delete(g.open, server)
}
