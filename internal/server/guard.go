package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"plantstore/internal/plant"
)

// guard protects a listener without authentication from web pages: a browser
// on the operator's machine can reach the listener, and a page can make it
// send requests there. The zero value allows the listener's own address and
// loopback names.
type guard struct {
	hosts []string // also allowed; each as ParseHost returns it
}

// check refuses a request whose Host is not the listener's, which DNS
// rebinding sends, and a request that a page of another site started. A request
// without a Host is allowed: it names no other host, and every browser sends one.
func (g guard) check(r *http.Request) error {
	if r.Host != "" && !g.allows(r) {
		return &plant.Error{
			Code:    plant.CodeMisdirected,
			Message: fmt.Sprintf("Host %q is not an address of the admin listener: use its address, localhost, or a name of --admin-host", harmless(r.Host)),
		}
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return crossSite("Sec-Fetch-Site", site)
		}
	}
	for _, origin := range r.Header["Origin"] {
		if !sameOrigin(origin, r.Host) {
			return crossSite("Origin", origin)
		}
	}
	return nil
}

func crossSite(header, value string) error {
	return &plant.Error{
		Code:    plant.CodeCrossSite,
		Message: fmt.Sprintf("a page of another site started this request (%s: %s): open the address itself", header, harmless(value)),
	}
}

// allows reports whether the request's Host names the listener. The port is
// not compared: a forwarded port differs, and DNS rebinding cannot change it.
func (g guard) allows(r *http.Request) bool {
	host, ok := parseHost(withoutPort(r.Host))
	if !ok {
		return false
	}
	if host == "localhost" || slices.Contains(g.hosts, host) {
		return true
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return address.IsLoopback() || ok && address == local.AddrPort().Addr().Unmap().WithZone("")
}

// sameOrigin reports whether an Origin is that of pages under this Host.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.EqualFold(u.Host, host)
}

// withoutPort returns a Host without its port, if that is made of digits.
func withoutPort(host string) string {
	if strings.HasSuffix(host, "]") {
		return host
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.Trim(host[i+1:], "0123456789") == "" {
		return host[:i]
	}
	return host
}

// parseHost returns a host name or IP address in the one spelling that is
// compared: lower case, without the final dot, an IPv6 address without
// brackets. An IPv6 address needs brackets and has no zone.
func parseHost(host string) (string, bool) {
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		address, err := netip.ParseAddr(inside)
		return address.Unmap().String(), ok && err == nil && address.Is6() && address.Zone() == ""
	}
	const bytesMax = 253 // RFC 1035 section 2.3.4, as text
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	const characters = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	return host, host != "" && len(host) <= bytesMax && strings.Trim(host, characters) == ""
}

// ParseHost returns an entry of Config.AdminHosts in the spelling that is
// compared. The error says why the text is neither a host name nor an IP
// address without a port.
func ParseHost(text string) (string, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Is6() {
		text = "[" + text + "]"
	}
	host, ok := parseHost(text)
	if !ok {
		return "", fmt.Errorf("%q is not a host name or an IP address: write one without scheme and port, like metrics.example or 10.0.0.7", text)
	}
	return host, nil
}
