package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The server reads the PROXY header of a trusted proxy, and logs the address of its client.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir()+"/a.db", "--proxy-protocol", "--trusted-proxies", "192.0.2.1,127.0.0.1")
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const request = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
	if _, err := io.WriteString(c, "PROXY TCP4 192.0.2.7 192.0.2.1 6789 8080\r\n"+request); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(waitMax))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Errorf("got %s, want 200", response.Status)
	}
	if _, err := s.await(s.stderr, `path=/healthz client=192\.0\.2\.7 `); err != nil {
		t.Error(err)
	}
	s.stop(t)
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	var s proxySettings
	if err := s.rows()[0].value.Set("192.0.2.7,10.0.0.0/8,2001:db8::/32,::1,::ffff:192.0.2.8"); err != nil {
		t.Fatal(err)
	}
	var want []netip.Prefix
	for _, text := range []string{"192.0.2.7/32", "10.0.0.0/8", "2001:db8::/32", "::1/128", "192.0.2.8/32"} {
		want = append(want, netip.MustParsePrefix(text))
	}
	if diff := cmp.Diff(want, s.prefixes(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("prefixes (-want +got):\n%s", diff)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for available, want := range map[uint64]int64{
		0: 32 << 20, 64 << 20: 32 << 20, 128 << 20: 32 << 20, 256 << 20: 128 << 20, 512 << 20: 320 << 20,
		8 << 30: 6080 << 20, 1<<64 - 1: 768<<40 - 64<<20,
	} {
		if got := memoryLimit(available); got != want {
			t.Errorf("%d bytes: got %d, want %d", available, got, want)
		}
	}
	if available := availableMemory(); available < 64<<20 || available > 1<<50 {
		t.Errorf("got %d bytes of memory", available)
	}
}

// A set number is in force up to the limit of open files; the default also depends on memory.
func TestConnectionsMax(t *testing.T) {
	t.Parallel()
	files := descriptorsForClients()
	if n, reduced := connectionsMax(7); n != 7 || reduced {
		t.Errorf("7: got %d, %v", n, reduced)
	}
	if n, reduced := connectionsMax(files + 1); n != files || !reduced {
		t.Errorf("%d: got %d, %v, want %d", files+1, n, reduced, files)
	}
	for memory, want := range map[int64]int{1 << 40: 5000, 32 << 20: 512, 1 << 16: 1, 1: 1, 0: 1} {
		if n := automaticConnections(5000, memory); n != want {
			t.Errorf("%d bytes: got %d, want %d", memory, n, want)
		}
	}
	for limit := int64(-1); limit != debug.SetMemoryLimit(-1); { // an import of another test changes it
		limit = debug.SetMemoryLimit(-1)
		n, reduced := connectionsMax(0)
		if want := min(10_000, files, int(limit>>16)); limit == debug.SetMemoryLimit(-1) && (n != want || reduced) {
			t.Errorf("automatic: got %d, %v, want %d", n, reduced, want)
		}
	}
}

func TestAdminConnectionsMax(t *testing.T) {
	t.Parallel()
	for descriptors, want := range map[int]int{1 << 30: 512, 4096: 512, 4095: 511, 1024: 128, 128: 16, 20: 16} {
		if got := adminConnectionsMax(descriptors); got != want {
			t.Errorf("%d descriptors: got %d connections, want %d", descriptors, got, want)
		}
	}
}
