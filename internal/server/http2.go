package server

import (
	"encoding/binary"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/plant"
)

// Limits of a connection of HTTP/2. net/http enforces the streams and the sizes of
// frames and header lists; http2Conn limits frames that make work without a request.
const (
	http2StreamsMax      = 100     // concurrent requests of a connection (RFC 9113 section 6.5.2)
	http2FrameBytesMax   = 1 << 14 // the smallest maximum that the RFC allows
	http2StreamBytesMax  = 1 << 17 // of a body that the handler has not read
	http2ConnBytesMax    = 1 << 20 // of all bodies of a connection that the handlers have not read
	http2WriteTimeMax    = 20 * time.Second
	http2FramesPerSecond = 100 // resets, pings, settings and other frames without content
	http2FramesBurst     = 500
	http2PenaltyTime     = 5 * time.Second // for which a client that sends more stays connected without service
)

// http2Config returns the limits that net/http enforces.
func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          http2StreamsMax,
		MaxReadFrameSize:              http2FrameBytesMax,
		MaxReceiveBufferPerStream:     http2StreamBytesMax,
		MaxReceiveBufferPerConnection: http2ConnBytesMax,
		WriteByteTimeout:              http2WriteTimeMax,
	}
}

// newHTTP2Server returns the server of the connections of HTTP/2, with the same
// handler and times as the one of HTTP/1.1.
//
// The connections are not of the type *tls.Conn, because http2Conn is above TLS. To
// net/http they are connections of HTTP/2 without TLS.
func newHTTP2Server(http1 *http.Server, headerMax int) *http.Server {
	s := &http.Server{
		Handler:     http1.Handler,
		ConnContext: http1.ConnContext,
		ConnState:   http1.ConnState,
		Protocols:   new(http.Protocols),
		HTTP2:       http2Config(),
		ReadTimeout: http1.ReadTimeout, WriteTimeout: http1.WriteTimeout, IdleTimeout: http1.IdleTimeout,
		// net/http responds to a larger header list without the handler and with a
		// body of its own. The handler refuses smaller ones, with an error body.
		MaxHeaderBytes: 4 * headerMax,
		ErrorLog:       http1.ErrorLog,

		DisableGeneralOptionsHandler: true,
	}
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// checkHTTP2 refuses requests of HTTP/2 that net/http itself refuses in HTTP/1.1.
func checkHTTP2(r *http.Request, headerMax int) error {
	if size := headerListSize(r); size > headerMax {
		return &plant.Error{
			Code:    plant.CodeHeadersTooLarge,
			Message: "the request line and headers are larger than the limit; send fewer or shorter headers",
		}
	}
	if values := r.Header["Expect"]; len(values) > 0 && values[0] != "" {
		return &plant.Error{Code: plant.CodeExpectationFailed, Message: "Expect must be 100-continue; omit the header"}
	}
	return nil
}

// headerListSize returns the size of the header list (RFC 9113 section 6.5.2).
func headerListSize(r *http.Request) int {
	const overhead = 32 // of each field
	size := len(":method:scheme:authority:path") + 4*overhead +
		len(r.Method) + len("https") + len(r.Host) + len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + overhead
		}
	}
	return size
}

// http2Conn is a connection of HTTP/2 over TLS. It counts the frames that cost work
// and belong to no request: resets (CVE-2023-44487), pings, settings, priorities,
// continuations and empty data. A client that sends too many of them is disconnected.
//
// It must not have a method ConnectionState, because net/http would not serve HTTP/2
// on it.
type http2Conn struct {
	*conn

	// Only Read uses these; net/http reads from one goroutine at a time.
	skip   int     // bytes until the next frame header
	header [9]byte // of the next frame
	have   int     // bytes of header
	tokens float64 // frames that the client may send at once
	at     time.Time

	requests atomic.Int64 // since the connection was idle

	penalty   time.Duration // for which a client that sends too much stays connected without service
	closeOnce sync.Once
	closed    chan struct{} // closed by Close
}

// prefaceBytes is the length of the connection preface (RFC 9113 section 3.4). net/http
// checks it.
const prefaceBytes = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

func newHTTP2Conn(c *conn, penalty time.Duration) *http2Conn {
	return &http2Conn{
		conn: c, skip: prefaceBytes, tokens: http2FramesBurst, at: time.Now(), penalty: penalty,
		closed: make(chan struct{}),
	}
}

// The frame types of RFC 9113 section 6, and the error code of section 7.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameGoAway       = 0x7
	frameContinuation = 0x9

	flagEndStream = 0x1

	codeEnhanceYourCalm = 0xb
)

var errFlood = errors.New("too many resets or control frames")

// Read reads from the client and counts its frames.
func (c *http2Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if c.skip > 0 {
			skipped := min(c.skip, len(rest))
			c.skip -= skipped
			rest = rest[skipped:]
			continue
		}
		copied := copy(c.header[c.have:], rest)
		c.have += copied
		rest = rest[copied:]
		if c.have < len(c.header) {
			break
		}
		c.have = 0
		c.skip = int(c.header[0])<<16 | int(c.header[1])<<8 | int(c.header[2])
		if !c.allows(c.header[3], c.header[4], c.skip) {
			c.disconnect()
			return 0, errFlood
		}
	}
	return n, err
}

// Write writes to the client. No response of HTTP/2 is an error response of
// HTTP/1.1.
func (c *http2Conn) Write(p []byte) (int, error) { return c.Conn.Write(p) }

// allows reports whether the client may send a frame now.
func (c *http2Conn) allows(kind, flags byte, size int) bool {
	switch kind {
	case frameHeaders:
		c.beginRequest()
		return true
	case frameReset, framePing, frameSettings, framePriority, frameContinuation:
	case frameData:
		if size > 0 || flags&flagEndStream != 0 {
			return true
		}
	default:
		return true
	}
	now := time.Now()
	c.tokens = min(http2FramesBurst, c.tokens+http2FramesPerSecond*now.Sub(c.at).Seconds())
	c.at = now
	c.tokens--
	return c.tokens >= 0
}

// disconnect sends GOAWAY with ENHANCE_YOUR_CALM, and then reads nothing for some
// time before the connection is closed: a client that floods the server would
// otherwise connect again at once, and the handshakes would cost more than the flood.
// The frame may follow an incomplete one of net/http, which does not matter at the
// end of the connection.
func (c *http2Conn) disconnect() {
	const writeTimeMax = 500 * time.Millisecond
	c.log.Info("HTTP/2 connection closed", "client", c.client(), "error", errFlood)
	frame := make([]byte, len(c.header), len(c.header)+8)
	frame[2], frame[3] = 8, frameGoAway
	frame = binary.BigEndian.AppendUint32(frame, 1<<31-1) // the last stream is unknown
	frame = binary.BigEndian.AppendUint32(frame, codeEnhanceYourCalm)
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeMax))
	if _, err := c.Conn.Write(frame); err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Time{}) // a write of net/http that fails would close the connection early
	select {
	case <-time.After(c.penalty):
	case <-c.closed:
	}
}

// Close closes the connection. net/http may call it more than once.
func (c *http2Conn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
