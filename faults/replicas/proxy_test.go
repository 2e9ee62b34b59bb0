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

// fault is what happens to one request on its way to PostgreSQL or back. All but
// the last end the connection both ways.
type fault int

const (
	none       fault = iota
	noAnswer         // PostgreSQL did it, and its answer is lost
	noRequest        // PostgreSQL never saw it
	noCommit         // the rows come, and that the statement is complete, but not the end of its transaction, which is undone
	lateAnswer       // the answer takes a time
	faults
)

func (f fault) String() string {
	return [...]string{"none", "no answer", "no request", "no commit", "late answer"}[f]
}

// proxy stands between servers and PostgreSQL. It knows as much of the protocol
// (https://www.postgresql.org/docs/current/protocol-message-formats.html) as it
// takes to tell where a request and its answer end.
type proxy struct {
	listener net.Listener
	network  string // of PostgreSQL
	address  string
	decide   func(statement string) fault
	late     time.Duration // of a late answer

	committed atomic.Int64 // statements with noAnswer that PostgreSQL did
	running   sync.WaitGroup
	mu        sync.Mutex
	closed    bool                  // no connection is taken; guarded by mu
	open      map[net.Conn]struct{} // both ends; guarded by mu
	stop      chan struct{}         // closed at the end
}

// newProxy starts a proxy before the database at a URL. It ends with the test.
func newProxy(t testing.TB, database string, late time.Duration, decide func(statement string) fault) (_ *proxy, through string) {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, decide: decide, late: late, open: map[net.Conn]struct{}{}, stop: make(chan struct{})}
	p.network, p.address = pgconn.NetworkAddress(config.Host, config.Port)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	u := url.URL{Scheme: "postgres", User: url.User(config.User), Host: l.Addr().String(), Path: config.Database, RawQuery: "sslmode=disable"}
	return p, u.String()
}

func (p *proxy) close() {
	_ = p.listener.Close()
	close(p.stop)
	p.shut(true)
	p.running.Wait()
}

// shut ends every connection and takes no new ones, or takes them again.
func (p *proxy) shut(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = closed; !closed {
		return
	}
	for c := range p.open {
		_ = c.Close()
	}
}

// keep notes a connection until it ends, or closes it if none is taken.
func (p *proxy) keep(c net.Conn) (forget func()) {
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
			return // it was closed
		}
		p.running.Go(func() {
			defer p.keep(client)()
			server, err := net.Dial(p.network, p.address)
			if err != nil {
				return
			}
			defer p.keep(server)()
			c := &conversation{p: p, client: client, server: server, statements: map[string]string{}}
			_ = c.run() // that it ends is no error here
		})
	}
}

// conversation is one connection. Nobody on it speaks before the other has ended.
type conversation struct {
	p              *proxy
	client, server net.Conn
	statements     map[string]string // what was prepared, by name
}

func (c *conversation) run() error {
	fromClient, fromServer := bufio.NewReader(c.client), bufio.NewReader(c.server)
	request, err := readMessage(fromClient, nil, 0) // the first one has no type
	f := none
	for err == nil {
		if err = c.exchange(request, fromServer, f); err != nil {
			return err
		}
		var statement string
		if request, statement, err = c.request(fromClient); err == nil {
			f = c.p.decide(statement)
		}
	}
	return err
}

// request reads one request, to the message at which PostgreSQL answers, and
// tells what it executes.
func (c *conversation) request(from io.Reader) (request []byte, statement string, err error) {
	for {
		begin := len(request)
		if request, err = readMessage(from, request, 1); err != nil {
			return nil, "", err
		}
		const typeAndLength = 5
		parts := bytes.SplitN(request[begin+typeAndLength:], []byte{0}, 3)
		switch request[begin] {
		case 'P': // Parse: name, text
			c.statements[string(parts[0])] = string(parts[1])
		case 'B': // Bind: portal, name
			statement = c.statements[string(parts[1])]
		case 'Q': // Query: text
			return request, string(parts[0]), nil
		case 'S', 'X': // Sync, Terminate
			return request, statement, nil
		}
	}
}

var errCut = errors.New("the connection is cut")

// exchange sends a request to PostgreSQL and its answer back.
func (c *conversation) exchange(request []byte, fromServer io.Reader, f fault) error {
	end := byte('Z') // ReadyForQuery
	switch f {
	case noRequest:
		return errCut
	case noCommit: // which the Sync brings about; Flush has it answer all the same
		const sync, flush = "S\x00\x00\x00\x04", "H\x00\x00\x00\x04"
		body, ok := bytes.CutSuffix(request, []byte(sync))
		if !ok {
			return fmt.Errorf("a request without Sync: %q", request)
		}
		request, end = append(body, flush...), 'C' // CommandComplete
	}
	if _, err := c.server.Write(request); err != nil {
		return err
	}
	answer, err := readAnswer(fromServer, end)
	if err != nil {
		_, _ = c.client.Write(answer) // why PostgreSQL ends the connection
		return err
	}
	switch f {
	case noAnswer:
		c.p.committed.Add(1)
		return errCut
	case lateAnswer:
		select {
		case <-time.After(c.p.late):
		case <-c.p.stop:
		}
	}
	_, err = c.client.Write(answer)
	if err == nil && f == noCommit {
		err = errCut
	}
	return err
}

// readAnswer reads to a message of that type. With an error, it returns the
// messages before.
func readAnswer(from io.Reader, end byte) (answer []byte, err error) {
	for {
		begin := len(answer)
		more, err := readMessage(from, answer, 1)
		if err != nil {
			return answer, err
		}
		if answer = more; answer[begin] == end {
			return answer, nil
		}
	}
}

// readMessage appends a message, whose type has that many bytes, to others.
func readMessage(from io.Reader, to []byte, typeBytes int) ([]byte, error) {
	const lengthBytes, most = 4, 64 << 20
	head := make([]byte, typeBytes+lengthBytes)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[typeBytes:])
	if length < lengthBytes || length > most {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	body := make([]byte, length-lengthBytes)
	_, err := io.ReadFull(from, body)
	return append(append(to, head...), body...), err
}

// writes reports whether a statement is one by which plants are stored, or found
// to be.
func writes(statement string) bool {
	return strings.HasPrefix(statement, "INSERT INTO plants ") || strings.Contains(statement, "FROM plants ") && strings.HasSuffix(statement, "FOR UPDATE")
}
