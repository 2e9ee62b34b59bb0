package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/plant"
)

// ListenConfig is what Listen needs.
type ListenConfig struct {
	Name           string // "public" or "admin", in log lines and metrics
	Address        string // port 0 takes a free port
	ConnectionsMax int    // connections that may be open; 0: no limit
	Log            *slog.Logger
	Metrics        prometheus.Registerer // gets the number of connections
}

// Listen opens a TCP listener. Connections beyond the limit are
// closed at once, and counted as refused.
//
// Its connections see to it that also what net/http answers by itself, before
// any handler, has the Error body: a malformed or oversized request head, an
// HTTP version or a Transfer-Encoding that is not served, an Expect that
// cannot be met.
func Listen(ctx context.Context, c ListenConfig) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err // says "listen tcp ADDRESS" itself
	}
	return &listener{
		TCPListener: l.(*net.TCPListener), name: c.Name, log: c.Log,
		max: int64(c.ConnectionsMax), connections: newConnections(c.Metrics, c.Name),
	}, nil
}

type listener struct {
	*net.TCPListener
	name        string
	log         *slog.Logger
	max         int64        // connections that may be open; 0: no limit
	open        atomic.Int64 // connections
	connections connections

	// Of the goroutine that calls Accept, which is one.
	loggedAt time.Time // of the last line about refused connections
	unlogged int       // connections that were refused since
}

// Accept implements net.Listener. It is called by one goroutine, as by
// http.Server.Serve, which tries again when no descriptor is free.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			l.refuse(err)
			return nil, err
		case l.max > 0 && l.open.Load() >= l.max:
			_ = c.Close()
			l.refuse(fmt.Errorf("%d connections are open; raise the limit of open files to allow more", l.max))
			continue
		}
		l.open.Add(1)
		l.connections.open.Inc()
		return &conn{TCPConn: c, log: l.log, listener: l}, nil
	}
}

// refuse counts a connection that was refused, and logs at most one line a
// second.
func (l *listener) refuse(cause error) {
	l.connections.refused.Inc()
	l.unlogged++
	if now := time.Now(); now.Sub(l.loggedAt) >= time.Second {
		l.log.Warn("connections refused", "listener", l.name, "connections", l.unlogged, "error", cause)
		l.loggedAt, l.unlogged = now, 0
	}
}

type conn struct {
	*net.TCPConn
	log       *slog.Logger
	listener  *listener // counts this connection until it is closed
	closed    atomic.Bool
	answering atomic.Bool // a handler runs, and reads nothing but a body of known length
}

// Close closes the connection; net/http may do so more than once.
func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.listener.open.Add(-1)
		c.listener.connections.open.Dec()
	}
	return c.TCPConn.Close()
}

// connKey is the key of a request's context under which its *conn is.
type connKey struct{}

// keepConn puts the connection into the context of its requests.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request; nil if it is not of a listener
// of this package.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// Read passes on what the client sends. While a handler runs, net/http reads
// one byte in the background, to find out whether the client has left, and
// breaks that read off afterwards: a goroutine that blocks, two changes of a
// deadline and two wake-ups a request. The public listener does not need it,
// because an accepted plant is stored whether its client waits or not; there
// that one read returns at once with nothing. The price is that a disconnect is
// noticed only when the answer is written. Of a chunked body net/http may want
// a single byte itself, so answering is not set for one.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.answering.Load() {
		return 0, nil
	}
	return c.TCPConn.Read(p)
}

// Write passes on what net/http writes, unless it is an error of its own.
func (c *conn) Write(p []byte) (int, error) {
	refusal := ownError(p)
	if refusal == nil {
		return c.TCPConn.Write(p)
	}
	id := newRequestID()
	client, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	c.log.Info("request refused before it was read", "request_id", id, "client", client,
		"status", refusal.Code.Status(), "error_code", int(refusal.Code), "error", refusal.Message)
	if _, err := c.TCPConn.Write(bareAnswer(refusal, id)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// The parts by which an answer of net/http's own is known. No answer of a handler
// has media type text/plain, and none has the status 417. Each part has an end
// of a line, which no JSON has in a string: a write may begin anywhere in a
// body, and what a client put there must not be taken for an error. A test
// pins the parts to the net/http that the program is built with.
var (
	ownStatusLine = []byte("HTTP/1.1 ")
	ownHeaders    = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	ownExpect     = []byte("HTTP/1.1 417 Expectation Failed\r\n")
	ownExpect10   = []byte("HTTP/1.0 417 Expectation Failed\r\n") // to a request of HTTP/1.0
)

// ownError returns what to answer instead of p if p is an error of net/http's own.
func ownError(p []byte) *plant.Error {
	if bytes.HasPrefix(p, ownExpect) || bytes.HasPrefix(p, ownExpect10) {
		return &plant.Error{Code: plant.CodeExpectationFailed, Message: "the Expect header asks for something other than 100-continue: leave it out"}
	}
	if !bytes.HasPrefix(p, ownStatusLine) {
		return nil
	}
	head, text, ok := bytes.Cut(p, ownHeaders)
	if !ok || len(head) < len("HTTP/1.1 400") {
		return nil
	}
	switch status, _ := strconv.Atoi(string(head[len(ownStatusLine):len("HTTP/1.1 400")])); status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return &plant.Error{Code: plant.CodeHeadersTooLarge, Message: "the request line and headers are larger than the limit"}
	case http.StatusNotImplemented:
		return &plant.Error{Code: plant.CodeTransferEncoding, Message: "the request has a Transfer-Encoding other than chunked"}
	case http.StatusHTTPVersionNotSupported:
		return &plant.Error{Code: plant.CodeHTTPVersion, Message: "the request's HTTP version is not served: use HTTP/1.1"}
	case http.StatusBadRequest:
	default:
		return nil
	}
	message := "the request is not HTTP as in RFC 9112"
	if _, detail, ok := strings.Cut(string(text), ": "); ok {
		message += ": " + detail
	}
	return &plant.Error{Code: plant.CodeRequestMalformed, Message: message}
}

// bareAnswer is a whole answer as bytes, where there is no http.ResponseWriter.
func bareAnswer(e *plant.Error, id string) []byte {
	body := appendError(nil, e)
	status := e.Code.Status()
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\nContent-Type: %s\r\nDate: %s\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\n\r\n",
		status, http.StatusText(status), len(body), mediaType, time.Now().UTC().Format(http.TimeFormat), id)
	return append([]byte(head), body...)
}
