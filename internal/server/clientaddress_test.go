package server_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"plantstore/internal/server"
)

// trusted are the proxies of the tests.
var trusted = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("fd00::/8"),
}

func requestFrom(peer, header string, lines ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	if len(lines) > 0 {
		r.Header[header] = lines
	}
	return r
}

// No header of a client changes its address.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	const proxy, peer = "10.0.0.1:4711", "10.0.0.1"
	long := strings.Repeat("9.9.9.9, ", 1800) // 16 KiB
	for _, row := range []struct {
		name, peer, want string
		lines            []string // X-Forwarded-For
	}{
		{"no header", proxy, peer, nil},
		{"no proxy", "192.0.2.7:1", "192.0.2.7", []string{"203.0.113.9"}},
		{"no proxy, IPv6", "[2001:db8::7]:1", "2001:db8::7", []string{"203.0.113.9"}},
		{"no proxy, IPv4-mapped", "[::ffff:192.0.2.7]:1", "192.0.2.7", []string{"203.0.113.9"}},
		{"IPv4-mapped proxy", "[::ffff:10.0.0.1]:1", "203.0.113.9", []string{"203.0.113.9"}},
		{"proxy with a zone", "[fd00::1%eth0]:1", "203.0.113.9", []string{"203.0.113.9"}},
		{"one address", proxy, "203.0.113.9", []string{"203.0.113.9"}},
		{"spaces", proxy, "203.0.113.9", []string{" \t203.0.113.9\t "}},
		{"with a port", proxy, "203.0.113.9", []string{"203.0.113.9:80"}},
		{"IPv4-mapped", proxy, "203.0.113.9", []string{"::ffff:203.0.113.9"}},
		{"IPv6", proxy, "2001:db8::9", []string{"2001:db8::9"}},
		{"IPv6 in upper case", proxy, "2001:db8::9", []string{"2001:0DB8::0009"}},
		{"IPv6 in brackets", proxy, "2001:db8::9", []string{"[2001:db8::9]"}},
		{"IPv6 in brackets with a port", proxy, "2001:db8::9", []string{"[2001:db8::9]:65535"}},
		{"two proxies", proxy, "203.0.113.9", []string{"203.0.113.9, 10.0.0.2"}},
		{"two proxies, two lines", proxy, "203.0.113.9", []string{"203.0.113.9", "10.0.0.2"}},
		{"client on a trusted network", proxy, "10.0.0.9", []string{"10.0.0.9"}},
		{"the first of trusted addresses", proxy, "10.0.0.9", []string{"10.0.0.9, fd00::1, 127.0.0.1"}},
		{"empty elements", proxy, "203.0.113.9", []string{"203.0.113.9,, 10.0.0.2,", ""}},
		{"an empty header", proxy, peer, []string{""}},

		{"spoofed", proxy, "203.0.113.9", []string{"9.9.9.9, 203.0.113.9"}},
		{"spoofed on a line", proxy, "203.0.113.9", []string{"9.9.9.9", "203.0.113.9"}},
		{"spoofed proxies", proxy, "203.0.113.9", []string{"9.9.9.9, 10.0.0.2, 203.0.113.9"}},
		{"spoofed loopback", proxy, "203.0.113.9", []string{"127.0.0.1, 203.0.113.9, 10.0.0.2"}},
		{"spoofed garbage", proxy, "203.0.113.9", []string{"\x00\xff\",;=, 203.0.113.9"}},
		{"spoofed 16 KiB", proxy, "203.0.113.9", []string{long + "203.0.113.9"}},
		{"spoofed 16 KiB without a comma", proxy, "203.0.113.9", []string{strings.Repeat("9", 16<<10) + ",203.0.113.9"}},
		{"spoofed 2,000 lines", proxy, "203.0.113.9", append(make([]string, 2000), "203.0.113.9")},

		{"unknown", proxy, peer, []string{"unknown"}},
		{"a name", proxy, peer, []string{"client.example"}},
		{"a part of an address", proxy, peer, []string{"203.0.113"}},
		{"leading zeros", proxy, peer, []string{"203.0.113.009"}},
		{"hexadecimal", proxy, peer, []string{"0xcb.0.113.9"}},
		{"one number", proxy, peer, []string{"3405803785"}},
		{"a zone", proxy, peer, []string{"fe80::1%eth0"}},
		{"a network", proxy, peer, []string{"203.0.113.0/24"}},
		{"a quoted address", proxy, peer, []string{`"203.0.113.9"`}},
		{"a space inside", proxy, peer, []string{"203.0.113.9 203.0.113.8"}},
		{"no port", proxy, peer, []string{"203.0.113.9:"}},
		{"a large port", proxy, peer, []string{"203.0.113.9:65536"}},
		{"a name as port", proxy, peer, []string{"203.0.113.9:http"}},
		{"an obfuscated port", proxy, peer, []string{"203.0.113.9:_http"}},
		{"IPv4 in brackets", proxy, peer, []string{"[203.0.113.9]"}},
		{"an open bracket", proxy, peer, []string{"[2001:db8::9"}},
		{"a closed bracket", proxy, peer, []string{"2001:db8::9]"}},
		{"text after the bracket", proxy, peer, []string{"[2001:db8::9]80"}},
		{"two brackets", proxy, peer, []string{"[[2001:db8::9]]"}},
		{"Forwarded's form", proxy, peer, []string{"for=203.0.113.9"}},
		{"semicolons", proxy, peer, []string{"203.0.113.9;10.0.0.2"}},
		{"garbage behind proxies", proxy, peer, []string{"garbage, 10.0.0.3, 10.0.0.2"}},
		{"a long element", proxy, peer, []string{strings.Repeat("1", 10_000)}},
		{"16 proxies", proxy, "10.0.0.9", []string{strings.Repeat("10.0.0.9,", 15)}},
		{"17 proxies", proxy, peer, []string{strings.Repeat("10.0.0.9,", 17)}},
		{"only commas", proxy, peer, []string{strings.Repeat(",", 10_000)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := server.ClientAddress(trusted, requestFrom(row.peer, "X-Forwarded-For", row.lines...))
			if got.String() != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// RFC 7239, with its own examples and with attacks.
func TestForwarded(t *testing.T) {
	t.Parallel()
	const proxy, peer = "10.0.0.1:4711", "10.0.0.1"
	for _, row := range []struct {
		name, want string
		lines      []string
	}{
		{"RFC 7239 section 4, 1", peer, []string{`for="_gazonk"`}},
		{"RFC 7239 section 4, 2", "2001:db8:cafe::17", []string{`For="[2001:db8:cafe::17]:4711"`}},
		{"RFC 7239 section 4, 3", "192.0.2.60", []string{"for=192.0.2.60;proto=http;by=203.0.113.43"}},
		{"RFC 7239 section 4, 4", "198.51.100.17", []string{"for=192.0.2.43, for=198.51.100.17"}},
		{"RFC 7239 section 7.1", peer, []string{`for=_hidden, for=_SEVKISEK`}},
		{"unknown", peer, []string{"for=unknown"}},
		{"for at the end", "192.0.2.43", []string{"proto=https;host=plants.example;for=192.0.2.43"}},
		{"upper case", "192.0.2.43", []string{"FOR=192.0.2.43;PROTO=https"}},
		{"quoted", "192.0.2.43", []string{`for="192.0.2.43"`}},
		{"quoted with a port", "192.0.2.43", []string{`for="192.0.2.43:80"`}},
		{"quoted with an obfuscated port", "192.0.2.43", []string{`for="192.0.2.43:_a.b-c"`}},
		{"quoted pair in another parameter", "192.0.2.43", []string{`host="a\"b";for=192.0.2.43`}},
		{"two proxies", "192.0.2.43", []string{`for=192.0.2.43;by=10.0.0.2`, `for=10.0.0.2, for="[fd00::1]"`}},

		{"spoofed", "192.0.2.43", []string{"for=9.9.9.9, for=192.0.2.43"}},
		{"spoofed with an open quote", "192.0.2.43", []string{`for="9.9.9.9, for=192.0.2.43`}},
		{"spoofed with a backslash", "192.0.2.43", []string{`for="9.9.9.9\, for=192.0.2.43`}},
		{"comma in a host", peer, []string{`for=192.0.2.43;host="a,for=9.9.9.9"`}},
		{"element in a host", peer, []string{`for=192.0.2.43;host="a,for=9.9.9.9;x="`}},
		{"element in a host before a parameter", peer, []string{`for=192.0.2.43;host="a,for=9.9.9.9;x=";by="10.0.0.1"`}},
		{"element with a quoted pair", peer, []string{`for=192.0.2.43;host="a,for=9.9.9.9;x=\""`}},
		{"element in two parameters", peer, []string{`for=192.0.2.43;host="a,for=9.9.9.9;x=";ext=";y=z\""`}},

		{"unquoted port", peer, []string{"for=192.0.2.43:80"}},
		{"unquoted IPv6", peer, []string{"for=[2001:db8::1]"}},
		{"IPv6 without brackets", peer, []string{`for="2001:db8::1"`}},
		{"IPv4 in brackets", peer, []string{`for="[192.0.2.43]"`}},
		{"zone", peer, []string{`for="[fe80::1%eth0]"`}},
		{"no for", peer, []string{"by=203.0.113.43;proto=http"}},
		{"for twice", peer, []string{"for=192.0.2.43;for=192.0.2.44"}},
		{"for twice in two cases", peer, []string{"for=192.0.2.43;For=192.0.2.44"}},
		{"empty for", peer, []string{"for="}},
		{"empty quoted for", peer, []string{`for=""`}},
		{"no value", peer, []string{"for"}},
		{"no name", peer, []string{"=192.0.2.43"}},
		{"only an address", peer, []string{"192.0.2.43"}},
		{"spaces around =", peer, []string{"for = 192.0.2.43"}},
		{"spaces around ;", peer, []string{"for=192.0.2.43 ; proto=http"}},
		{"semicolon at the end", peer, []string{"for=192.0.2.43;"}},
		{"text after the quote", peer, []string{`for="192.0.2.43"x`}},
		{"quoted pair in for", peer, []string{`for="192.0.2.4\3"`}},
		{"control character", peer, []string{"for=192.0.2.43\x00"}},
		{"long element", peer, []string{"for=192.0.2.43;host=" + strings.Repeat("a", 500)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := server.ClientAddress(trusted, requestFrom(proxy, "Forwarded", row.lines...)); got.String() != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// A client can add the header that the proxy does not know.
func TestBothHeaders(t *testing.T) {
	t.Parallel()
	r := requestFrom("10.0.0.1:1", "Forwarded", "for=9.9.9.9")
	r.Header["X-Forwarded-For"] = []string{"203.0.113.9"}
	if got := server.ClientAddress(trusted, r).String(); got != "10.0.0.1" {
		t.Errorf("got %s, want the peer", got)
	}
	r.RemoteAddr = "192.0.2.7:1"
	if got := server.ClientAddress(trusted, r).String(); got != "192.0.2.7" {
		t.Errorf("no proxy: got %s, want the peer", got)
	}
}

// FuzzClientAddress checks that nothing a client sends changes the address that the proxy adds, and that any header
// yields a valid address.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range []string{
		"", ",", "203.0.113.9", "10.0.0.2, 10.0.0.3", "[2001:db8::1]:80", "unknown", `for="[2001:db8::1]:80";by=_a`,
		`for=192.0.2.43;host="a,for=9.9.9.9;x=";by="10.0.0.1"`, `for="\`, "for=10.0.0.2;for=1.1.1.1",
	} {
		f.Add(seed)
	}
	const proxy = "10.0.0.1:1"
	f.Fuzz(func(t *testing.T, sent string) {
		for header, own := range map[string]string{"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"} {
			got := server.ClientAddress(trusted, requestFrom(proxy, header, sent))
			if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
				t.Errorf("%s: %q: got %s, want an address without a zone", header, sent, got)
			}
			for _, lines := range [][]string{{sent + "," + own}, {sent + ", " + own}, {sent, own}, {sent, own + ","}} {
				if got := server.ClientAddress(trusted, requestFrom(proxy, header, lines...)); got.String() != "203.0.113.9" {
					t.Errorf("%s: %q: got %s, want the address that the proxy added", header, lines, got)
				}
			}
			if got := server.ClientAddress(trusted, requestFrom("192.0.2.7:1", header, sent)); got.String() != "192.0.2.7" {
				t.Errorf("%s: %q: got %s, want the peer, which is no proxy", header, sent, got)
			}
		}
	})
}
