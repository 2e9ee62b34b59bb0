package listen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
)

func contains(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// addressOf returns the IP address of a TCP address, without a zone and, if it is an IPv4 address in IPv6 form, as an
// IPv4 address.
func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// proxyHeader is the PROXY header of a connection from a trusted proxy, with the address of its client (HAProxy's
// proxy-protocol.txt, versions 1 and 2).
type proxyHeader struct {
	once   sync.Once     // reads the header and sets the other fields
	client net.Addr      // nil: the header names none, so the client is the proxy itself
	rest   *bufio.Reader // bytes that arrived with the header; nil after they were read
	err    error         // of every later read
}

// headerBuffer is the size of the buffer for a header, in bytes. A header of version 1 has at most 107 bytes and must
// fit. A header of version 2 may be larger; the parser refuses one of more than 4 KiB.
const headerBuffer = 256

// read reads the header. Its errors are a *refusal, or the error of a connection that
// the client closed or reset before its first byte, as health checks of proxies do, or that the server closed. It sets
// a read deadline, which the caller must replace.
func (h *proxyHeader) read(c net.Conn, timeout time.Duration) error {
	h.rest = bufio.NewReaderSize(c, headerBuffer)
	_ = c.SetReadDeadline(time.Now().Add(timeout)) // the next read has the error of a closed connection
	if _, err := h.rest.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	header, err := proxyproto.Read(h.rest)
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	if err != nil {
		return &refusal{badHeader, headerFault(c.RemoteAddr(), err)}
	}
	h.client = clientOf(header)
	return nil
}

// clientOf returns the address of the client in a header, or nil for a health check of the proxy and for a client
// without TCP.
func clientOf(h *proxyproto.Header) net.Addr {
	client, _, ok := h.TCPAddrs()
	if !ok || h.Command.IsLocal() {
		return nil
	}
	return client
}

// next reads the bytes that arrived with the header, then the connection.
func (h *proxyHeader) next(c net.Conn, p []byte) (int, error) {
	if h.rest != nil && h.rest.Buffered() > 0 {
		return h.rest.Read(p)
	}
	h.rest = nil
	return c.Read(p)
}

// headerFault describes the error of a connection from a trusted proxy without a valid header.
func headerFault(proxy net.Addr, err error) string {
	text := strings.ReplaceAll(err.Error(), "proxyproto: ", "")
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		text = "it did not arrive in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		text = "it is incomplete"
	}
	return fmt.Sprintf("no valid PROXY header from the trusted proxy %s: %s", proxy, text)
}
