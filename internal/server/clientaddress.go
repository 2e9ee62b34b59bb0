package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// proxies are the addresses of the trusted proxies.
type proxies []netip.Prefix

func (p proxies) trust(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// Limits of the header of trusted proxies.
const (
	hopsMax     = 16  // elements between the client and the server
	hopBytesMax = 512 // bytes of an element
)

// client returns the address of the client of a request: the peer of the connection, unless the peer is a trusted
// proxy. Then it is the last address in the header that is not a trusted proxy, or the first address if all are.
//
// A client can send any header, and a proxy adds its element at the end. So client reads from the end and ignores
// everything before the address that it returns. It returns the peer if the request has both headers, because the
// client may have sent one of them, and if an element has no valid address.
func (p proxies) client(r *http.Request) netip.Addr {
	peer := peerOf(r)
	if len(p) == 0 || !p.trust(peer) {
		return peer
	}
	forwarded, forwardedFor := r.Header["Forwarded"], r.Header["X-Forwarded-For"]
	switch {
	case len(forwarded) > 0 && len(forwardedFor) > 0:
		return peer
	case len(forwarded) > 0:
		return p.walk(peer, forwarded, forwardedAddress)
	default:
		return p.walk(peer, forwardedFor, listedAddress)
	}
}

// forwarded returns the client that a trusted proxy has named in a request; zero: none.
func (p proxies) forwarded(r *http.Request) netip.Addr {
	peer := peerOf(r)
	if client := p.client(r); client != peer {
		return client
	}
	return netip.Addr{}
}

// walk reads the elements of a header from the last one on, and returns the address of the client. A comma in a quoted
// string also splits an element: the part after it has an unpaired quote or a backslash outside quotes, and is not
// valid.
func (p proxies) walk(peer netip.Addr, lines []string, parse func(string) (netip.Addr, bool)) netip.Addr {
	client, rest := peer, strings.Join(lines, ",") // RFC 9110 section 5.3: several lines are one list
	for n, more := 0, true; more; n++ {
		comma := strings.LastIndexByte(rest, ',')
		element := strings.Trim(rest[comma+1:], " \t")
		rest, more = rest[:max(comma, 0)], comma >= 0
		if n == hopsMax || len(element) > hopBytesMax {
			return peer
		}
		if element == "" { // RFC 9110 section 5.6.1.2: an empty element of a list means nothing
			continue
		}
		var ok bool
		if client, ok = parse(element); !ok {
			return peer
		}
		if !p.trust(client) {
			break
		}
	}
	return client
}

// peerOf returns the address of the other end of the connection.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // net/http writes it
	return peer.Addr().Unmap().WithZone("")
}

// clientText returns the address of the client for the log.
func (h *handler) clientText(r *http.Request) string {
	if len(h.proxies) == 0 {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return host
	}
	return h.proxies.client(r).String()
}

// listedAddress parses an element of X-Forwarded-For, which no standard defines: an IPv4 address, or an IPv6 address
// with or without brackets, and from some proxies a port after it.
func listedAddress(element string) (netip.Addr, bool) {
	if strings.Count(element, ":") == 1 || strings.HasPrefix(element, "[") {
		return nodeAddress(element)
	}
	address, err := netip.ParseAddr(element)
	return address.Unmap(), err == nil && address.Zone() == ""
}

// forwardedAddress returns the parameter "for" of an element of Forwarded, whose parameters have semicolons between
// them (RFC 7239 section 4).
func forwardedAddress(element string) (netip.Addr, bool) {
	node := ""
	for more := true; more; {
		name, value, rest, ok := forwardedPair(element)
		isNode := strings.EqualFold(name, "for")
		if !ok || isNode && node != "" { // section 4: each parameter at most once
			return netip.Addr{}, false
		}
		if isNode {
			node = value
		}
		if element, more = strings.CutPrefix(rest, ";"); !more && rest != "" {
			return netip.Addr{}, false
		}
	}
	node, _, _ = strings.Cut(node, ":_") // an obfuscated port
	return nodeAddress(node)
}

// forwardedPair parses the first parameter of an element: a token, an equals sign, and a token or a quoted string.
// value has no quotes, but still has escapes, which no address needs.
func forwardedPair(element string) (name, value, rest string, ok bool) {
	n := tokenBytes(element)
	name, rest = element[:n], element[n:]
	if rest, ok = strings.CutPrefix(rest, "="); !ok || name == "" {
		return "", "", "", false
	}
	if !strings.HasPrefix(rest, `"`) {
		n = tokenBytes(rest)
		return name, rest[:n], rest[n:], n > 0
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			return name, rest[1:i], rest[i+1:], true
		case '\\':
			i++
		}
	}
	return "", "", "", false
}

// tokenBytes returns the length of the token (RFC 9110 section 5.6.2) at the start of a text.
func tokenBytes(text string) int {
	return len(text) - len(strings.TrimLeftFunc(text, httpguts.IsTokenRune))
}

// nodeAddress parses a node of RFC 7239 section 6: an IPv4 address, or an IPv6 address in brackets, with or without a
// port. An obfuscated identifier or "unknown" has no address. A zone is invalid, because it has a meaning only on the
// machine of the proxy. An IPv4-mapped IPv6 address becomes an IPv4 address.
func nodeAddress(node string) (netip.Addr, bool) {
	if strings.LastIndexByte(node, ':') <= strings.LastIndexByte(node, ']') {
		node += ":0" // it has no port
	}
	at, err := netip.ParseAddrPort(node)
	return at.Addr().Unmap(), err == nil && at.Addr().Zone() == ""
}
