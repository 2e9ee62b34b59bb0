package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// idleMax limits the connections that wait for the next create, and idleTime the time that they wait.
	idleMax  = 256
	idleTime = 30 * time.Second

	// checkAfter is the time after which the client checks that the server has not closed an idle connection. A busy
	// client saves the system call.
	checkAfter = 20 * time.Millisecond

	sweepEvery = time.Second // while there are idle connections
)

// errStale is for a connection that the server had closed while it was idle, or closed when it received the request.
var errStale = errors.New("the server closed an idle connection")

// pool sends requests by HTTP/1.1. A connection has one request at a time, and the goroutine of the create writes and
// reads it: an http.Transport hands each request to two other goroutines, which costs as much as the rest of the
// request.
type pool struct {
	address string // host:port
	head    string // the request line and the header Host
	dial    func(ctx context.Context, network, address string) (net.Conn, error)

	mu       sync.Mutex
	idle     []*conn // the longest idle first; guarded by mu
	sweeping bool    // a timer calls sweep; guarded by mu
}

// conn is a connection of a pool.
type conn struct {
	net.Conn
	reader *bufio.Reader
	out    []byte    // memory of the previous request, for reuse
	idleAt time.Time // zero: it has had no request
}

func newPool(plants *url.URL, config *tls.Config) *pool {
	p := &pool{
		address: net.JoinHostPort(plants.Hostname(), plants.Port()),
		head:    "POST " + plants.RequestURI() + " HTTP/1.1\r\nHost: " + plants.Host + "\r\n",
		dial:    (&net.Dialer{}).DialContext,
	}
	if plants.Port() == "" {
		p.address = net.JoinHostPort(plants.Hostname(), plants.Scheme) // the names of the ports are http and https
	}
	if plants.Scheme == "https" {
		if config = config.Clone(); config == nil {
			config = &tls.Config{}
		}
		config.NextProtos = []string{"http/1.1"}
		p.dial = (&tls.Dialer{Config: config}).DialContext
	}
	return p
}

// send implements sender.
func (p *pool) send(ctx context.Context, r *request) (*response, error) {
	c, err := p.get(ctx, r.deadline)
	if err != nil {
		return nil, &notSentError{err}
	}
	if err := c.SetDeadline(r.deadline); err != nil {
		return nil, errors.Join(errStale, err, c.Close())
	}
	release := func() bool { return true }
	if ctx.Done() != nil {
		release = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	}
	res, keep, err := c.roundTrip(p.head, r)
	if !release() || err != nil || !keep {
		_ = c.Close() // its error does not change the outcome
		switch {
		case err != nil && ctx.Err() != nil:
			err = ctx.Err()
		case timedOut(ctx, err):
			err = context.DeadlineExceeded
		case errors.Is(err, errStale):
			p.close() // a server that has restarted has closed the others, too
		}
		return res, err
	}
	p.put(c)
	return res, nil
}

// timedOut reports whether a time-out of a connection is that of its context: both have the same deadline, and the
// timer of the context may be later.
func timedOut(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	t, isNet := errors.AsType[net.Error](err)
	return ok && isNet && t.Timeout() && !time.Now().Before(deadline)
}

// get returns an idle connection, or a new one.
func (p *pool) get(ctx context.Context, deadline time.Time) (*conn, error) {
	for c := p.take(); c != nil; c = p.take() {
		if time.Since(c.idleAt) < checkAfter || !c.closed() {
			return c, nil
		}
		_ = c.Close()
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := p.dial(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, reader: bufio.NewReader(c)}, nil
}

// take returns the connection that was used last, so that a pool that needs fewer of them can close the others.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	last := len(p.idle) - 1
	c := p.idle[last]
	p.idle = p.idle[:last]
	return c
}

// put keeps a connection for the next request, and closes one that is too many.
func (p *pool) put(c *conn) {
	c.idleAt = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	if len(p.idle) > idleMax {
		_ = p.idle[0].Close()
		p.idle = p.idle[1:]
	}
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(sweepEvery, p.sweep)
	}
}

// sweep closes the idle connections that the server has closed, and those that have waited too long. It does so without
// a goroutine for each connection, and again until none is idle.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		idle := time.Since(c.idleAt)
		if idle < checkAfter || idle < idleTime && !c.closed() {
			return false
		}
		_ = c.Close()
		return true
	})
	if p.sweeping = len(p.idle) > 0; p.sweeping {
		time.AfterFunc(sweepEvery, p.sweep)
	}
}

// close implements sender.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}

// roundTrip writes a request and reads the response. keep says that the connection can have another request.
func (c *conn) roundTrip(head string, r *request) (res *response, keep bool, err error) {
	c.out = appendRequest(c.out[:0], head, r)
	if _, err := c.Write(c.out); err != nil {
		return nil, false, c.staleOr(err)
	}
	if _, err := c.reader.Peek(1); err != nil {
		return nil, false, c.staleOr(err)
	}
	if res, ok := c.created(); ok {
		return res, c.reader.Buffered() == 0, nil
	}
	for {
		got, err := http.ReadResponse(c.reader, nil)
		if err != nil {
			return nil, false, fmt.Errorf("read the response: %w", err)
		}
		if res, err = newResponse(got); err != nil {
			return nil, false, err
		}
		if got.StatusCode >= http.StatusOK || got.StatusCode == http.StatusSwitchingProtocols {
			return res, !got.Close && c.reader.Buffered() == 0, nil
		}
	}
}

// staleOr returns the error of a connection that ended before the first byte of a response.
func (c *conn) staleOr(err error) error {
	if t, ok := errors.AsType[net.Error](err); c.idleAt.IsZero() || ok && t.Timeout() {
		return err
	}
	return fmt.Errorf("%w: %w", errStale, err)
}

// appendRequest appends a request to dst. checkHeader has accepted its header.
func appendRequest(dst []byte, head string, r *request) []byte {
	dst = append(dst, head...)
	for name, values := range r.header {
		for _, value := range values {
			dst = append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
		}
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(r.body)), 10)
	return append(append(dst, "\r\n\r\n"...), r.body...)
}
