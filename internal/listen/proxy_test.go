package listen_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plantstore/internal/listen"
)

// Parts of headers of version 2.
const (
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	ipv4      = "\xc0\x00\x02\x07\x7f\x00\x00\x01\x1a\x85\x1f\x90" // 192.0.2.7:6789 to 127.0.0.1:8080
	ipv6      = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x1a\x85\x1f\x90"
	mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x07" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x1a\x85\x1f\x90"
)

const proxyItself = "the proxy"

// accepted are the valid headers, with the address of the client.
var accepted = map[string]struct{ header, client string }{
	"1, IPv4":             {"PROXY TCP4 192.0.2.7 127.0.0.1 6789 8080\r\n", "192.0.2.7:6789"},
	"1, IPv6":             {"PROXY TCP6 2001:db8::7 ::1 6789 8080\r\n", "[2001:db8::7]:6789"},
	"1, port 0":           {"PROXY TCP4 192.0.2.7 127.0.0.1 0 8080\r\n", "192.0.2.7:0"},
	"1, unknown":          {"PROXY UNKNOWN\r\n", proxyItself},
	"1, unknown, longest": {"PROXY UNKNOWN " + strings.Repeat("f", 91) + "\r\n", proxyItself},
	"2, IPv4":             {signature + "\x21\x11\x00\x0c" + ipv4, "192.0.2.7:6789"},
	"2, IPv6":             {signature + "\x21\x21\x00\x24" + ipv6, "[2001:db8::7]:6789"},
	"2, IPv4 in IPv6":     {signature + "\x21\x21\x00\x24" + mapped, "192.0.2.7:6789"},
	"2, local":            {signature + "\x20\x00\x00\x00", proxyItself},
	"2, local with IPv4":  {signature + "\x20\x11\x00\x0c" + ipv4, proxyItself},
	"2, TLVs":             {signature + "\x21\x11\x00\x14" + ipv4 + "\x04\x00\x05hello", "192.0.2.7:6789"},
	"2, malformed TLVs":   {signature + "\x21\x11\x00\x0f" + ipv4 + "\x04\xff\xff", "192.0.2.7:6789"},
	"2, most bytes":       {signature + "\x21\x11\x10\x00" + ipv4 + strings.Repeat("\x04", 4096-12), "192.0.2.7:6789"},
	"2, Unix domain":      {signature + "\x21\x31\x00\xd8" + strings.Repeat("/a\x00\x00", 54), proxyItself},
	"2, UDP":              {signature + "\x21\x12\x00\x0c" + ipv4, proxyItself},
}

// invalid are connections from a trusted proxy that the listener refuses.
var invalid = map[string]string{
	"no header":                "POST /plants HTTP/1.1\r\n",
	"TLS":                      "\x16\x03\x01\x00\x00",
	"1, incomplete":            "PROXY TCP4 192.0.2.7",
	"1, only LF":               "PROXY TCP4 192.0.2.7 127.0.0.1 6789 8080\n",
	"1, without a client":      "PROXY TCP4\r\n",
	"1, one byte too long":     "PROXY UNKNOWN " + strings.Repeat("f", 92) + "\r\n",
	"1, endless":               "PROXY " + strings.Repeat("T", 100_000),
	"1, host name":             "PROXY TCP4 localhost 127.0.0.1 6789 8080\r\n",
	"1, IPv6 as IPv4":          "PROXY TCP4 2001:db8::7 ::1 6789 8080\r\n",
	"1, IPv4 as IPv6":          "PROXY TCP6 192.0.2.7 127.0.0.1 6789 8080\r\n",
	"1, zone":                  "PROXY TCP6 fe80::1%eth0 ::1 6789 8080\r\n",
	"1, leading zero":          "PROXY TCP4 192.0.02.7 127.0.0.1 6789 8080\r\n",
	"1, port of letters":       "PROXY TCP4 192.0.2.7 127.0.0.1 http 8080\r\n",
	"1, port too large":        "PROXY TCP4 192.0.2.7 127.0.0.1 65536 8080\r\n",
	"1, port with zero":        "PROXY TCP4 192.0.2.7 127.0.0.1 06789 8080\r\n",
	"1, sign":                  "PROXY TCP4 192.0.2.7 127.0.0.1 +6789 8080\r\n",
	"1, two spaces":            "PROXY  TCP4 192.0.2.7 127.0.0.1 6789 8080\r\n",
	"1, more parts":            "PROXY TCP4 192.0.2.7 127.0.0.1 6789 8080 x\r\n",
	"1, lower case":            "proxy tcp4 192.0.2.7 127.0.0.1 6789 8080\r\n",
	"1, unknown protocol":      "PROXY UDP4 192.0.2.7 127.0.0.1 6789 8080\r\n",
	"1, no space":              "PROXYTCP4 192.0.2.7 127.0.0.1 6789 8080\r\n",
	"2, incomplete signature":  signature[:8],
	"2, other signature":       signature[:11] + "\r" + "\x21\x11\x00\x0c" + ipv4,
	"2, incomplete":            signature + "\x21\x11\x00\x0c" + ipv4[:11],
	"2, version 1":             signature + "\x11\x11\x00\x0c" + ipv4,
	"2, version 3":             signature + "\x31\x11\x00\x0c" + ipv4,
	"2, unknown command":       signature + "\x22\x11\x00\x0c" + ipv4,
	"2, unknown family":        signature + "\x21\x41\x00\x0c" + ipv4,
	"2, unknown transport":     signature + "\x21\x13\x00\x0c" + ipv4,
	"2, too short for IPv4":    signature + "\x21\x11\x00\x0b" + ipv4,
	"2, too short for IPv6":    signature + "\x21\x21\x00\x0c" + ipv4,
	"2, one byte too long":     signature + "\x21\x11\x10\x01" + ipv4 + strings.Repeat("\x04", 4097-12),
	"2, longest":               signature + "\x21\x11\xff\xff" + ipv4 + strings.Repeat("\x04", 65535-12),
	"2, longest without bytes": signature + "\x21\x11\xff\xff" + ipv4,
	"2, longest local":         signature + "\x20\x00\xff\xff",
}

func TestProxyHeader(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Minute)
	for name, row := range accepted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := s.connect(t, "127.0.0.1")
			send(t, client, row.header+"data")
			want := row.client
			if want == proxyItself {
				want = client.LocalAddr().String()
			}
			if got := server.RemoteAddr().String(); got != want {
				t.Errorf("client: got %s, want %s", got, want)
			}
			if data, err := io.ReadAll(server); err != nil || string(data) != "data" {
				t.Errorf("data: got %q, %v", data, err)
			}
		})
	}
}

// The listener closes a connection from a trusted proxy without a valid header, and counts it. No data of it reaches
// the server.
func TestInvalidProxyHeader(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Minute)
	for name, header := range invalid {
		client, server := s.connect(t, "127.0.0.1")
		send(t, client, header)
		if data, err := io.ReadAll(server); err != nil || len(data) > 0 {
			t.Errorf("%s: data: got %q, %v", name, data, err)
		}
		if got := server.RemoteAddr().String(); got != client.LocalAddr().String() {
			t.Errorf("%s: client: got %s, want the proxy", name, got)
		}
		if data, _ := io.ReadAll(client); len(data) > 0 {
			t.Errorf("%s: response: got %q, want none", name, data)
		}
	}
	s.refused(t, len(invalid))
	const line = `"msg":"connections refused","listener":"public","reason":"proxy-header","connections":1,` +
		`"error":"no valid PROXY header from the trusted proxy 127.0.0.1:`
	if !strings.Contains(s.log.String(), line) {
		t.Errorf("log: got %s, want %s", s.log, line)
	}
}

// A proxy whose health check only opens a connection is not refused, whether it closes or resets the connection.
func TestProxyConnectionWithoutData(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Minute)
	for _, end := range []func(*net.TCPConn) error{
		(*net.TCPConn).CloseWrite,
		func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		client, server := s.connect(t, "127.0.0.1")
		if err := end(client.(*net.TCPConn)); err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(server); err != nil || len(data) > 0 {
			t.Errorf("data: got %q, %v", data, err)
		}
	}
	s.refused(t, 0)
}

// A connection that the server closes is not refused.
func TestClosedBeforeProxyHeader(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Minute)
	for _, part := range []string{"", "PROX", signature[:8], signature + "\x21\x11\x00\x0c"} {
		client, server := s.connect(t, "127.0.0.1")
		if _, err := io.WriteString(client, part); err != nil {
			t.Fatal(err)
		}
		go server.Close()
		if data, err := io.ReadAll(server); err != nil || len(data) > 0 {
			t.Errorf("data: got %q, %v", data, err)
		}
	}
	s.refused(t, 0)
}

func TestLateProxyHeader(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Millisecond)
	client, server := s.connect(t, "127.0.0.1")
	if _, err := io.WriteString(client, "P"); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(server); err != nil || len(data) > 0 {
		t.Errorf("data: got %q, %v", data, err)
	}
	s.refused(t, 1)
	if !strings.Contains(s.log.String(), ": it did not arrive in time") {
		t.Errorf("log: got %s", s.log)
	}
}

// A header of version 2 may arrive in any pieces.
func TestProxyHeaderByteByByte(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Minute)
	client, server := s.connect(t, "127.0.0.1")
	_ = client.(*net.TCPConn).SetNoDelay(true)
	go func() {
		for _, b := range []byte(accepted["2, TLVs"].header) {
			_, _ = client.Write([]byte{b})
		}
	}()
	if got := server.RemoteAddr().String(); got != "192.0.2.7:6789" {
		t.Errorf("client: got %s", got)
	}
}

// The bytes of a header from another address are data.
func TestProxyHeaderFromAnotherAddress(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Minute)
	client, server := s.connect(t, "127.0.0.2")
	const header = "PROXY TCP4 192.0.2.7 127.0.0.1 6789 8080\r\n"
	send(t, client, header)
	if got := server.RemoteAddr().String(); got != client.LocalAddr().String() {
		t.Errorf("client: got %s, want %s", got, client.LocalAddr())
	}
	if data, err := io.ReadAll(server); err != nil || string(data) != header {
		t.Errorf("data: got %q, %v", data, err)
	}
	s.refused(t, 0)
}

func serveProxies(t *testing.T, timeout time.Duration) *served {
	t.Helper()
	return serve(t, listen.Config{
		ProxyProtocol: true, HeaderTimeout: timeout,
		Limits: listen.Limits{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
	})
}

// send sends data and the end of the data.
func send(t *testing.T, c net.Conn, data string) {
	t.Helper()
	if _, err := io.WriteString(c, data); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// refused compares the number of connections refused because of their header.
func (s *served) refused(t *testing.T, want int) {
	t.Helper()
	s.count(t, "refused", map[string]int{
		"address": 0, "connections": 0, "credential": 0, "descriptors": 0, "proxy-header": want,
	})
}

// FuzzProxyHeader reads a header from data. All bytes after an accepted header are data of the client.
func FuzzProxyHeader(f *testing.F) {
	for _, row := range accepted {
		f.Add([]byte(row.header + "data"))
	}
	for _, header := range invalid {
		f.Add([]byte(header)[:min(len(header), 8<<10)])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		client, rest, err := listen.ReadHeader(&bytesConn{Reader: bytes.NewReader(in)})
		if err != nil {
			return
		}
		data, err := io.ReadAll(rest)
		if err != nil {
			t.Fatal(err)
		}
		if length := len(in) - len(data); !bytes.HasSuffix(in, data) || length < 15 || length > 16+4096 {
			t.Errorf("%q: the header has %d bytes, and the data is %q", in, length, data)
		}
		if client == nil {
			return
		}
		if a, err := netip.ParseAddrPort(client.String()); err != nil || !a.IsValid() {
			t.Errorf("%q: the client is %q: %v", in, client, err)
		}
	})
}

// bytesConn is a connection of a proxy that sends some bytes.
type bytesConn struct {
	net.Conn // nil: read uses only the methods below
	*bytes.Reader
}

func (c *bytesConn) Read(p []byte) (int, error)      { return c.Reader.Read(p) }
func (c *bytesConn) SetReadDeadline(time.Time) error { return nil }
func (c *bytesConn) RemoteAddr() net.Addr            { return &net.TCPAddr{} }
