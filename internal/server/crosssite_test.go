package server_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/server"
)

const textAlive = `{"status":"alive"}` + "\n"

func misdirected(host string) response {
	return refused(42101,
		`Host must be the address of the admin listener, a name of its certificate or of --admin-host, or localhost; got "`+
			host+`"`)
}

func crossSite(header, value string) response {
	rule := "Origin must be the address of the admin listener"
	if header == "Sec-Fetch-Site" {
		rule = "Sec-Fetch-Site must be same-origin or none"
	}
	return refused(40302, rule+`; got "`+value+`"`)
}

// DNS rebinding resolves the name of an attacker to this machine. The browser then sends that name as Host, with the
// port of the listener.
func TestAdminHost(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.adminHosts = []string{"Metrics.Example.", "10.0.0.7", "2001:db8::1"} })
	_, port, err := net.SplitHostPort(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	alive := jsonResponse(200, textAlive)
	for _, host := range []string{
		"localhost", "localhost:1", "LOCALHOST:" + port, "localhost.", "localhost.:" + port, "localhost:",
		"127.0.0.1", h.admin, "127.1.2.3:9", "127.0.0.1.", "[::1]", "[::1]:" + port, "[::ffff:127.0.0.1]:" + port,
		"[0:0:0:0:0:0:0:1]",
		"metrics.example", "METRICS.example.:443", "10.0.0.7:9090", "[2001:DB8:0::1]:1", "",
	} {
		same(t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "", "Host: "+host)), alive)
	}
	// Old health checks send HTTP/1.0 without a Host.
	same(t, h.sendTo(h.admin, message("GET /livez HTTP/1.0", "", "-Host")), closing(alive))

	for _, host := range []string{
		"evil.example", "evil.example:" + port, "localhost.evil.example", "localhost:" + port + ".evil.example",
		"127.0.0.1.evil.example:" + port,
		"evil.localhost", "localhost..", ".localhost", "localhost:http", "localhost:80:80", "user@localhost",
		"localhost@evil.example", "evil.example#@localhost",
		"0.0.0.0", "[::]", "10.0.0.8", "2001:db8::1", "::1", "[::1", "::1]", "[::1]x", "[::1%25lo]", "[127.0.0.1]",
		"[]", ":", ":" + port,
		"127.1", "0x7f000001", "2130706433", "0177.0.0.1", "metrics.example.evil", "xmetrics.example", "l%6fcalhost",
		"*",
		strings.Repeat("a", 64) + ".example",
	} {
		want := misdirected(host)
		got := h.sendTo(h.admin, message("GET /livez HTTP/1.1", "", "Host: "+host))
		if got.Status == 400 && got.Body != "" { // net/http refuses some of the values itself
			want = withDetail(": malformed Host header")
		}
		same(t, got, want)
	}
}

// An absolute request target overrides the Host header (RFC 9112 section 3.2.2). The server refuses two Host headers.
func TestAdminHostSmuggled(t *testing.T) {
	t.Parallel()
	h := start(t)
	for target, host := range map[string]string{
		"http://evil.example/livez": "evil.example", "http://evil.example:80/livez": "evil.example:80",
		"HTTP://localhost@evil.example/livez": "evil.example",
	} {
		same(t, h.sendTo(h.admin, message("GET "+target+" HTTP/1.1", "", "Host: localhost")), misdirected(host))
	}
	same(
		t, h.sendTo(h.admin, message("GET http://localhost/livez HTTP/1.1", "", "Host: evil.example")),
		jsonResponse(200, textAlive),
	)
	two := h.sendTo(h.admin, message("GET /livez HTTP/1.1", "", "Host: localhost", "+Host: evil.example"))
	same(t, two, malformedRow)
	same(t, h.sendTo(h.admin, message(
		"GET /livez HTTP/1.1", "", "Host: evil.example", "X-Forwarded-Host: localhost", "Forwarded: host=localhost",
	)), misdirected("evil.example"))
	same(t, h.sendTo(h.admin, message("GET /nothing HTTP/1.1", "", "Host: evil.example")), misdirected("evil.example"))
	same(
		t, h.sendTo(h.admin, message("OPTIONS /metrics HTTP/1.1", "", "Host: evil.example")),
		misdirected("evil.example"),
	)
}

// The destination address of a connection is allowed as Host, even if the listener listens on all addresses.
func TestAdminOwnAddress(t *testing.T) {
	t.Parallel()
	h := start(t)
	for local, hosts := range map[string]map[string]int{
		"192.0.2.7": {
			"192.0.2.7:9": 200, "[::ffff:192.0.2.7]": 200, "192.0.2.8:9": 421, "[2001:db8::7]": 421, "localhost": 200,
			"0.0.0.0": 421,
		},
		"::ffff:192.0.2.7": {"192.0.2.7": 200, "192.0.2.8": 421},
		"2001:db8::7": {
			"[2001:db8::7]:9": 200, "[2001:DB8::0007]": 200, "[2001:db8::8]": 421, "192.0.2.7": 421, "[::]": 421,
		},
		"fe80::7%something": {"[fe80::7]:9": 200, "[fe80::8]": 421},
	} {
		address, zone, _ := strings.Cut(local, "%")
		ctx := context.WithValue(
			t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(address), Zone: zone, Port: 9},
		)
		for host, want := range hosts {
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/livez", http.NoBody)
			req.Host = host
			recorder := httptest.NewRecorder()
			h.adminServer.Handler().ServeHTTP(recorder, req)
			if recorder.Code != want {
				t.Errorf("Host %s at %s: got %d, want %d", host, local, recorder.Code, want)
			}
		}
	}
}

// The admin listener refuses requests from pages of other sites, with any method. It accepts requests from its own
// pages and from the address bar.
func TestAdminCrossSite(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.pprof, s.origins = true, []string{"*", "https://nursery.example"} })
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: none"}, {"Sec-Fetch-Site: same-origin"}, {"Origin: http://localhost:8081"}, {
			"Origin: HTTPS://LOCALHOST:8081", "Sec-Fetch-Site: same-origin",
		},
	} {
		same(
			t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "", append(headers, "Host: localhost:8081")...)),
			jsonResponse(200, textAlive),
		)
	}
	for _, site := range []string{"cross-site", "same-site", "Same-Origin", "same-origin, none", "", "x"} {
		for _, target := range []string{
			"/livez", "/metrics", "/readyz?verbose", "/debug/pprof/profile?seconds=1", "/nothing",
		} {
			same(
				t, h.sendTo(h.admin, message("GET "+target+" HTTP/1.1", "", "Sec-Fetch-Site: "+site)),
				crossSite("Sec-Fetch-Site", site),
			)
		}
	}
	same(
		t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "", "Sec-Fetch-Site: none", "+Sec-Fetch-Site: cross-site")),
		crossSite("Sec-Fetch-Site", "cross-site"),
	)
	for _, origin := range []string{
		"http://evil.example", "https://nursery.example", "null", "", "*", "http://localhost", "http://localhost:8080",
		"localhost:8081", "file://localhost:8081",
		"http://localhost:8081.evil.example", "http://evil.example@localhost",
		"http://localhost:8081, http://evil.example", "http://",
	} {
		same(
			t, h.sendTo(h.admin, message("GET /metrics HTTP/1.1", "", "Host: localhost:8081", "Origin: "+origin)),
			crossSite("Origin", origin),
		)
	}
	preflight := message(
		"OPTIONS /metrics HTTP/1.1", "", "Origin: http://evil.example", "Access-Control-Request-Method: GET",
	)
	same(t, h.sendTo(h.admin, preflight), crossSite("Origin", "http://evil.example"))
	same(
		t, h.sendTo(h.admin, message("GET /metrics HTTP/1.0", "", "-Host", "Origin: http://evil.example")),
		closing(crossSite("Origin", "http://evil.example")),
	)
}

// The public listener accepts every Host, because proxies rewrite it.
func TestPublicHost(t *testing.T) {
	t.Parallel()
	h := start(t)
	ready := jsonResponse(200, `{"status":"ready"}`+"\n")
	same(t, h.send(message(
		"GET /healthz HTTP/1.1", "", "Host: other.example", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site",
	)), ready)
}

func TestParseHost(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plants": "plants", "Plants-0.Example.": "plants-0.example", "_a.b": "_a.b", "10.0.0.7": "10.0.0.7",
		"::1": "::1", "[::1]": "::1", "2001:DB8:0:0::1": "2001:db8::1",
	} {
		if got, err := server.ParseHost(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "a:80", "http://a", "a/b", "*", "*.example", "[::1]:80", "[a]", "fe80::1%lo", "a b", "é.example",
		"a\n", strings.Repeat("a.", 128),
	} {
		if got, err := server.ParseHost(in); err == nil {
			t.Errorf("%q: got %q, want an error", in, got)
		}
	}
	c := start(t).config
	c.AdminHosts, c.Metrics = []string{"a:80"}, prometheus.NewRegistry()
	if _, _, err := server.New(c); err == nil {
		t.Error("a port in AdminHosts: got no error")
	}
}
