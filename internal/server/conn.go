package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"plantstore/internal/plant"
)

// NewListener returns a listener without TLS for the Serve method of a server. inner
// is a listener of package listen.
//
// net/http refuses some requests before it calls the handler: a malformed or
// oversized head, an unsupported HTTP version or Transfer-Encoding, an unsupported
// Expect. The connections of the listener replace these responses by ones with the
// error body. log receives a line for each; nil: none.
func NewListener(inner net.Listener, log *slog.Logger) net.Listener {
	return &listener{Listener: inner, log: loggerOrNone(log)}
}

type listener struct {
	net.Listener
	log *slog.Logger
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err // Serve compares it, and retries if it is temporary
	}
	return &conn{Conn: c, log: l.log}, nil
}

// conn is the HTTP level of a connection.
type conn struct {
	net.Conn
	log        *slog.Logger
	responding atomic.Bool // a handler runs that reads only a body of known length
	working    working

	tls     *tlsListener // nil: no TLS
	shaken  bool         // the handshake has succeeded; Read does it
	subject string       // of the client certificate
}

// client returns the address of the client without the port.
func (c *conn) client() string {
	client, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return client
}

// CloseWrite ends the output, which net/http calls before it closes a connection
// with unread data.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connKey is the key of the *conn in the context of a request.
type connKey struct{}

// keepConn adds the connection to the context of its requests.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// connOf returns the connection of a request, or nil if it is not one of this
// package's listeners.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// Read reads from the client, after the TLS handshake. While a handler runs, net/http reads one byte in the
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
	if c.tls != nil && !c.shaken {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

// Write writes to the client. It replaces an error response of net/http.
func (c *conn) Write(p []byte) (int, error) {
	refusal := ownError(p)
	if refusal == nil {
		return c.Conn.Write(p)
	}
	id := newRequestID()
	c.log.Info("request refused before it was read", "request_id", id, "client", c.client(),
		"status", refusal.Code.Status(), "error_code", int(refusal.Code), "error", refusal.Message)
	if _, err := c.Conn.Write(bareResponse(refusal, id, c.tls != nil)); err != nil {
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
	success       = []byte("HTTP/1.1 2") // no error, which saves the search of the head of each response
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
	if !bytes.HasPrefix(p, ownStatusLine) || bytes.HasPrefix(p, success) {
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
			Code: plant.CodeHTTPVersion, Message: otherVersion,
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

const otherVersion = "the server does not support this HTTP version; use HTTP/1.1"

// bareResponse returns a whole error response, for a connection without an
// http.ResponseWriter. secure says that the connection has TLS.
func bareResponse(e *plant.Error, id string, secure bool) []byte {
	body := appendError(nil, e)
	status := e.Code.Status()
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n"+
		"Content-Security-Policy: %s\r\nContent-Type: %s\r\nDate: %s\r\n"+
		"X-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\n",
		status, http.StatusText(status), len(body), loadNothing[0], mediaType,
		time.Now().UTC().Format(http.TimeFormat), id)
	if secure {
		head += "Strict-Transport-Security: " + strictTransport[0] + "\r\n"
	}
	return append([]byte(head+"\r\n"), body...)
}
