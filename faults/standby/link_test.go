package standby

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// link is how a machine reaches the destination. Only heal ends a fault.
type link struct {
	cut  func() // the machine cannot reach the destination
	heal func()

	// A directory has none of these.
	hold  func()                // as cut, but requests arrive late: when the link is healed
	slow  func(d time.Duration) // each piece of a request or response is up to d late
	lossy func()                // the connection breaks at one of some pieces
}

// newDirectoryLink returns a link to a directory, and its path for the machine.
func newDirectoryLink(t *testing.T, dir string) (l link, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backups")
	l = link{
		cut: func() { _ = os.Remove(path) }, // fails if it is cut already
		heal: func() {
			if err := os.Symlink(dir, path); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		},
	}
	l.heal()
	return l, path
}

// mode is what a proxy does.
type mode struct {
	cut, hold bool
	late      time.Duration // at most
	losses    float64       // probability that a piece breaks its connection
}

// proxy forwards TCP connections to the S3 server.
type proxy struct {
	to       string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	mode    mode                  // guarded by mu
	changed chan struct{}         // closed when mode changes; guarded by mu
	open    map[net.Conn]struct{} // guarded by mu
}

// newBucketLink returns a link to the S3 server at an address, and its URL for the machine.
func newBucketLink(t *testing.T, to string) (l link, endpoint string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, listener: listener, changed: make(chan struct{}), open: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(mode{cut: true})
		p.running.Wait()
	})
	return link{
		cut:   func() { p.set(mode{cut: true}) },
		heal:  func() { p.set(mode{}) },
		hold:  func() { p.set(mode{hold: true}) },
		slow:  func(d time.Duration) { p.set(mode{late: d}) },
		lossy: func() { p.set(mode{losses: 0.1}) },
	}, "http://" + listener.Addr().String()
}

func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
	if m.cut {
		for c := range p.open {
			_ = c.Close()
		}
	}
}

// track adds a connection, and closes it if the link is cut. The caller must call untrack, which closes the connection.
func (p *proxy) track(c net.Conn) (untrack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = struct{}{}
	if p.mode.cut {
		_ = c.Close()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		p.running.Go(func() {
			defer p.track(client)()
			server, err := net.Dial("tcp", p.to)
			if err != nil {
				return
			}
			defer p.track(server)()
			var both sync.WaitGroup
			both.Go(func() { p.forward(server, client) })
			both.Go(func() { p.forward(client, server) })
			both.Wait()
		})
	}
}

// forward copies one direction of a connection until its end, and then closes both.
func (p *proxy) forward(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if err != nil || !p.pass() {
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// pass waits until a piece may go on, and returns false if the connection breaks.
func (p *proxy) pass() bool {
	isLate := false
	for {
		p.mu.Lock()
		m, changed := p.mode, p.changed
		p.mu.Unlock()
		switch {
		case m.cut, m.losses > 0 && rand.Float64() < m.losses:
			return false
		case m.hold:
			<-changed
		case m.late > 0 && !isLate:
			select {
			case <-time.After(m.late/2 + rand.N(m.late/2)):
				isLate = true
			case <-changed:
			}
		default:
			return true
		}
	}
}
