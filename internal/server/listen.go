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

// ListenConfig configures a listener.
type ListenConfig struct {
	Name           string                // "public" or "admin", in log lines and metrics
	Address        string                // host:port; port 0 is any free port
	ConnectionsMax int                   // open connections; 0: no limit
	Log            *slog.Logger          // nil: none
	Metrics        prometheus.Registerer // for the metrics of connections; nil: none
}

// Listen opens a TCP listener. It closes connections above the limit at once and
// counts them as refused.
//
// net/http refuses some requests before it calls the handler: a malformed or
// oversized head, an unsupported HTTP version or Transfer-Encoding, an unsupported
// Expect. The connections of the listener replace these responses by ones with the
// error body.
func Listen(ctx context.Context, c ListenConfig) (net.Listener, error) {
	if c.Address == "" {
		return nil, errors.New("listen: the address is empty; give host:port")
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err // its text begins with "listen tcp ADDRESS"
	}
	return &listener{
		TCPListener: l.(*net.TCPListener), name: c.Name, log: loggerOrNone(c.Log),
		max: int64(c.ConnectionsMax), connections: newConnections(c.Metrics, c.Name),
	}, nil
}

type listener struct {
	*net.TCPListener
	name        string
	log         *slog.Logger
	max         int64        // open connections; 0: no limit
	open        atomic.Int64 // connections
	connections connections

	// Only the goroutine that calls Accept uses these.
	loggedAt time.Time // of the last line about refused connections
	unlogged int       // connections refused since then
}

// Accept implements net.Listener. Only one goroutine may call it, as
// http.Server.Serve does. Serve retries after the error of a missing descriptor.
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

// refuse counts a refused connection. It logs at most one line per second.
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
	log        *slog.Logger
	listener   *listener // counts this connection until it is closed
	closed     atomic.Bool
	responding atomic.Bool // a handler runs that reads only a body of known length
}

// Close closes the connection. net/http may call it more than once.
func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.listener.open.Add(-1)
		c.listener.connections.open.Dec()
	}
	return c.TCPConn.Close()
}

// connKey is the key of the *conn in the context of a request.
type connKey struct{}

// keepConn adds the connection to the context of its requests.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request, or nil if a listener of another
// package accepted it.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// Read reads from the client. While a handler runs, net/http reads one byte in the
// background to detect a disconnect, and aborts that read afterwards. This costs a
// blocked goroutine, two changes of a deadline and two wake-ups per request. The
// public listener does not need it, because a disconnect does not cancel a create:
// there this read returns at once without data. So the server detects a disconnect
// only when it writes the response. net/http may read single bytes of a chunked
// body for the handler, so responding is false for a chunked body.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.responding.Load() {
		return 0, nil
	}
	return c.TCPConn.Read(p)
}

// Write writes to the client. It replaces an error response of net/http.
func (c *conn) Write(p []byte) (int, error) {
	refusal := ownError(p)
	if refusal == nil {
		return c.TCPConn.Write(p)
	}
	id := newRequestID()
	client, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	c.log.Info("request refused before it was read", "request_id", id, "client", client,
		"status", refusal.Code.Status(), "error_code", int(refusal.Code), "error", refusal.Message)
	if _, err := c.TCPConn.Write(bareResponse(refusal, id)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// The parts that identify an error response of net/http. No response of a handler
// has the media type text/plain or the status 417. Each part contains a line end,
// which a JSON string cannot contain: a write may begin anywhere in a body, and the
// text of a client must not look like an error. A test compares the parts with the
// net/http that the program is built with.
var (
	ownStatusLine = []byte("HTTP/1.1 ")
	ownHeaders    = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	ownExpect     = []byte("HTTP/1.1 417 Expectation Failed\r\n")
	ownExpect10   = []byte("HTTP/1.0 417 Expectation Failed\r\n") // to a request of HTTP/1.0
)

// ownError returns the error to send instead of p if p is an error response of
// net/http, otherwise nil.
func ownError(p []byte) *plant.Error {
	if bytes.HasPrefix(p, ownExpect) || bytes.HasPrefix(p, ownExpect10) {
		return &plant.Error{Code: plant.CodeExpectationFailed, Message: "Expect must be 100-continue; omit the header"}
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
		return &plant.Error{
			Code:    plant.CodeHeadersTooLarge,
			Message: "the request line and headers are larger than the limit; send fewer or shorter headers",
		}
	case http.StatusNotImplemented:
		return &plant.Error{
			Code:    plant.CodeTransferEncoding,
			Message: "Transfer-Encoding must be chunked; omit it or send a Content-Length",
		}
	case http.StatusHTTPVersionNotSupported:
		return &plant.Error{
			Code: plant.CodeHTTPVersion, Message: "the server does not support this HTTP version; use HTTP/1.1",
		}
	case http.StatusBadRequest:
	default:
		return nil
	}
	message := "the request is not valid HTTP/1.1 (RFC 9112)"
	if _, detail, ok := strings.Cut(string(text), ": "); ok {
		message += ": " + detail
	}
	return &plant.Error{Code: plant.CodeRequestMalformed, Message: message}
}

// bareResponse returns a whole error response, for a connection without an
// http.ResponseWriter.
func bareResponse(e *plant.Error, id string) []byte {
	body := appendError(nil, e)
	status := e.Code.Status()
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n"+
		"Content-Type: %s\r\nDate: %s\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\n\r\n",
		status, http.StatusText(status), len(body), mediaType, time.Now().UTC().Format(http.TimeFormat), id)
	return append([]byte(head), body...)
}
