package s3test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy forwards TCP connections to a server, and injects faults into their requests.
type Proxy struct {
	Endpoint string // URL

	to       string
	listener net.Listener
	running  sync.WaitGroup
	received atomic.Int64  // bytes of requests
	limit    atomic.Int64  // bytes of requests to forward; negative: all
	cut      atomic.Bool   // close connections at the limit; else forward nothing more
	answers  atomic.Int64  // bytes of responses to forward on each connection; negative: all
	hold     atomic.Int64  // bytes of requests to forward on each connection before it waits; negative: all
	released chan struct{} // closed by release
	release  func()
	opened   atomic.Int64 // connections

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu; nil after Close
}

// pieceBytes is the size of the pieces that a proxy forwards.
const pieceBytes = 32 << 10

// NewProxy starts a proxy on loopback. The caller closes it.
func NewProxy(ctx context.Context, to string) (*Proxy, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	released := make(chan struct{})
	p := &Proxy{
		Endpoint: "http://" + l.Addr().String(), to: to, listener: l, conns: map[net.Conn]bool{},
		released: released, release: sync.OnceFunc(func() { close(released) }),
	}
	p.Pass()
	p.running.Go(p.accept)
	return p, nil
}

// StallAfter forwards that number of further bytes of requests and then nothing.
func (p *Proxy) StallAfter(bytes int64) {
	p.cut.Store(false)
	p.limit.Store(p.received.Load() + bytes)
}

// CutAfter forwards that number of further bytes of requests and then closes each connection.
func (p *Proxy) CutAfter(bytes int64) {
	p.cut.Store(true)
	p.limit.Store(p.received.Load() + bytes)
}

// HoldAfter forwards that number of bytes of the requests of each connection, then holds the connection until release,
// and closes it. The other end has received no more then, however much the system buffers.
func (p *Proxy) HoldAfter(bytes int64) (release func()) {
	p.hold.Store(bytes)
	return p.release
}

// CutResponses closes each further connection after that number of bytes of its responses.
func (p *Proxy) CutResponses(bytes int64) { p.answers.Store(bytes) }

// Opened returns the number of connections so far.
func (p *Proxy) Opened() int64 { return p.opened.Load() }

// Pass ends the faults. Connections that stall stay so.
func (p *Proxy) Pass() {
	p.limit.Store(-1)
	p.answers.Store(-1)
	p.hold.Store(-1)
}

// Close closes all connections and waits for its goroutines.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.release()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.running.Wait()
	return err
}

const bufferBytes = 256 << 10

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to) //nolint:noctx // ends at once: the address is on loopback
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.add(client, server) {
			return
		}
		// With a buffer of the system, which grows to tens of MiB, a client could send a whole file before its connection
		// is cut.
		_ = client.(*net.TCPConn).SetReadBuffer(bufferBytes)
		p.opened.Add(1)
		p.running.Go(func() { p.forward(client, server) })
		p.running.Go(func() {
			_, _ = io.Copy(client, &answer{server, p, 0})
			_ = errors.Join(client.Close(), server.Close())
		})
	}
}

// add adds the connections to close, or closes them if the proxy is closed.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns == nil {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return p.conns != nil
}

// forward copies the requests of a client until the end of the connection or the limit.
func (p *Proxy) forward(client, server net.Conn) {
	buf := make([]byte, pieceBytes)
	for own := int64(0); ; {
		n, err := client.Read(buf)
		own += int64(n)
		if hold := p.hold.Load(); hold >= 0 && own > hold {
			<-p.released
			err = net.ErrClosed
		}
		limit := p.limit.Load()
		if limit >= 0 && p.received.Add(int64(n)) > limit {
			if !p.cut.Load() {
				return // the client waits
			}
			err = net.ErrClosed
		} else if limit < 0 {
			p.received.Add(int64(n))
		}
		if err == nil {
			_, err = server.Write(buf[:n])
		}
		if err != nil {
			_ = errors.Join(client.Close(), server.Close())
			return
		}
	}
}

// answer reads the responses on a connection until the limit of the proxy.
type answer struct {
	from  io.Reader
	proxy *Proxy
	sent  int64
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	if limit := a.proxy.answers.Load(); limit >= 0 && a.sent+int64(n) > limit {
		n, err = int(max(0, limit-a.sent)), io.EOF
	}
	a.sent += int64(n)
	return n, err
}
