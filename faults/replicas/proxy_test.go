package replicas

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// fault is a failure of one request to PostgreSQL. All faults but lateResponse close the connection on both sides.
type fault int

const (
	none         fault = iota
	noResponse         // PostgreSQL executes the request; its response is lost
	noRequest          // PostgreSQL does not receive the request
	noCommit           // the response has the rows and CommandComplete; PostgreSQL then rolls the transaction back
	lateResponse       // the response is delayed
	faultCount
)

func (f fault) String() string {
	return [...]string{"none", "no response", "no request", "no commit", "late response"}[f]
}

// proxy forwards connections to PostgreSQL. It parses the protocol
// (https://www.postgresql.org/docs/current/protocol-message-formats.html) only to
// find the ends of requests and responses.
type proxy struct {
	listener net.Listener
	network  string // PostgreSQL's
	address  string
	inject   func(statement string) fault
	delay    time.Duration // how late a response is

	committed atomic.Int64 // statements with noResponse that PostgreSQL executed
	running   sync.WaitGroup
	mu        sync.Mutex
	closed    bool                  // the proxy refuses connections; guarded by mu
	open      map[net.Conn]struct{} // to servers and to PostgreSQL; guarded by mu
	stop      chan struct{}         // closed at the end
}

// newProxy starts a proxy for the database at a URL, and returns the URL of the proxy. The end of the test stops it.
func newProxy(
	t testing.TB, database string, delay time.Duration, inject func(statement string) fault,
) (_ *proxy, proxyURL string) {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, inject: inject, delay: delay, open: map[net.Conn]struct{}{}, stop: make(chan struct{})}
	p.network, p.address = pgconn.NetworkAddress(config.Host, config.Port)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	u := url.URL{
		Scheme: "postgres", User: url.User(config.User), Host: l.Addr().String(),
		Path: config.Database, RawQuery: "sslmode=disable",
	}
	return p, u.String()
}

func (p *proxy) close() {
	_ = p.listener.Close()
	close(p.stop)
	p.setClosed(true)
	p.running.Wait()
}

// setClosed closes every connection and refuses new ones, or accepts them again.
func (p *proxy) setClosed(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = closed; !closed {
		return
	}
	for c := range p.open {
		_ = c.Close()
	}
}

// track adds a connection to open, and closes it if the proxy refuses connections. The caller must call untrack, which
// closes the connection.
func (p *proxy) track(c net.Conn) (untrack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = struct{}{}
	if p.closed {
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
			server, err := net.Dial(p.network, p.address)
			if err != nil {
				return
			}
			defer p.track(server)()
			s := &session{p: p, client: client, server: server, statements: map[string]string{}}
			_ = s.run() // every session ends with an error
		})
	}
}

// session is one connection of a client through the proxy. Client and server send in turn: neither sends before the end
// of the other's message.
type session struct {
	p              *proxy
	client, server net.Conn
	statements     map[string]string // texts of the prepared statements, by name
}

func (s *session) run() error {
	fromClient, fromServer := bufio.NewReader(s.client), bufio.NewReader(s.server)
	request, err := readMessage(fromClient, nil, 0) // the startup message has no type
	f := none
	for err == nil {
		if err = s.forward(request, fromServer, f); err != nil {
			return err
		}
		var statement string
		if request, statement, err = s.readRequest(fromClient); err == nil {
			f = s.p.inject(statement)
		}
	}
	return err
}

// readRequest reads the messages of one request, up to the one that requires a response, and returns them with the
// statement.
func (s *session) readRequest(from io.Reader) (request []byte, statement string, err error) {
	for {
		start := len(request)
		if request, err = readMessage(from, request, 1); err != nil {
			return nil, "", err
		}
		const typeAndLength = 5
		parts := bytes.SplitN(request[start+typeAndLength:], []byte{0}, 3)
		switch request[start] {
		case 'P': // Parse: name, text
			s.statements[string(parts[0])] = string(parts[1])
		case 'B': // Bind: portal, name
			statement = s.statements[string(parts[1])]
		case 'Q': // Query: text
			return request, string(parts[0]), nil
		case 'S', 'X': // Sync, Terminate
			return request, statement, nil
		}
	}
}

var errCut = errors.New("the proxy closed the connection")

// forward sends a request to PostgreSQL and the response back to the client, with a fault.
func (s *session) forward(request []byte, fromServer io.Reader, f fault) error {
	last := byte('Z') // ReadyForQuery
	switch f {
	case noRequest:
		return errCut
	case noCommit: // Sync commits; Flush requests the response without a commit
		const sync, flush = "S\x00\x00\x00\x04", "H\x00\x00\x00\x04"
		body, ok := bytes.CutSuffix(request, []byte(sync))
		if !ok {
			return fmt.Errorf("a request without Sync: %q", request)
		}
		request, last = append(body, flush...), 'C' // CommandComplete
	}
	if _, err := s.server.Write(request); err != nil {
		return err
	}
	response, err := readResponse(fromServer, last)
	if err != nil {
		_, _ = s.client.Write(response) // PostgreSQL's reason to close the connection
		return err
	}
	switch f {
	case noResponse:
		s.p.committed.Add(1)
		return errCut
	case lateResponse:
		select {
		case <-time.After(s.p.delay):
		case <-s.p.stop:
		}
	}
	_, err = s.client.Write(response)
	if err == nil && f == noCommit {
		err = errCut
	}
	return err
}

// readResponse reads up to a message of the type last. With an error it returns the complete messages before it.
func readResponse(from io.Reader, last byte) (response []byte, err error) {
	for {
		start := len(response)
		more, err := readMessage(from, response, 1)
		if err != nil {
			return response, err
		}
		if response = more; response[start] == last {
			return response, nil
		}
	}
}

// readMessage reads a message, whose type has typeBytes bytes, and appends it to to.
func readMessage(from io.Reader, to []byte, typeBytes int) ([]byte, error) {
	const lengthBytes, bytesMax = 4, 64 << 20
	head := make([]byte, typeBytes+lengthBytes)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[typeBytes:])
	if length < lengthBytes || length > bytesMax {
		return nil, fmt.Errorf("a message has %d bytes; want %d to %d", length, lengthBytes, bytesMax)
	}
	body := make([]byte, length-lengthBytes)
	_, err := io.ReadFull(from, body)
	return append(append(to, head...), body...), err
}

// writesPlants reports whether a statement inserts plants, or selects the existing plants of an insert.
func writesPlants(statement string) bool {
	return strings.HasPrefix(statement, "INSERT INTO plants ") ||
		strings.Contains(statement, "FROM plants ") && strings.HasSuffix(statement, "FOR UPDATE")
}
