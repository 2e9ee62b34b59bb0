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

// guard protects a listener from web pages: a page can make a browser on the operator's machine send requests to the
// listener. The zero value allows the address of the listener and loopback names.
type guard struct {
	hosts     []string               // further allowed hosts; results of ParseHost
	certifies func(host string) bool // allows further hosts; nil: none
}

// check refuses a request with another Host, as after DNS rebinding, and a request from a page of another site. It
// allows a request without a Host, because every browser sends one.
func (g guard) check(r *http.Request) error {
	if r.Host != "" && !g.allows(r) {
		return plant.Errorf(plant.CodeMisdirected,
			"Host must be the address of the admin listener, a name of its certificate or of --admin-host, or localhost; got %q",
			Shorten(r.Host))
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return crossSite("Sec-Fetch-Site must be same-origin or none", site)
		}
	}
	for _, origin := range r.Header["Origin"] {
		if !sameOrigin(origin, r.Host) {
			return crossSite("Origin must be the address of the admin listener", origin)
		}
	}
	return nil
}

func crossSite(rule, value string) error {
	return plant.Errorf(plant.CodeCrossSite, "%s; got %q", rule, Shorten(value))
}

// allows reports whether the Host of the request names the listener. It ignores the port: a forwarded port differs, and
// DNS rebinding cannot change it.
func (g guard) allows(r *http.Request) bool {
	host, ok := strings.CutSuffix(strings.TrimRight(r.Host, "0123456789"), ":")
	if !ok {
		host = r.Host // it has no port
	}
	if host, ok = parseHost(host); !ok {
		return false
	}
	if host == "localhost" || slices.Contains(g.hosts, host) || g.certifies != nil && g.certifies(host) {
		return true
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return address.IsLoopback() || ok && address == local.AddrPort().Addr().Unmap().WithZone("")
}

// sameOrigin reports whether an Origin is the origin of the pages of a host.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.EqualFold(u.Host, host)
}

// parseHost returns the canonical form of a host name or IP address: lower case, without the final dot, an IPv6 address
// without brackets. The argument must have brackets around an IPv6 address, and no zone.
func parseHost(host string) (string, bool) {
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		address, err := netip.ParseAddr(inside)
		return address.Unmap().String(), ok && err == nil && address.Is6() && address.Zone() == ""
	}
	const bytesMax = 253 // RFC 1035 section 2.3.4, as text
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	const characters = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	return host, host != "" && len(host) <= bytesMax && hasOnly(host, characters)
}

// ParseHost returns the canonical form of an entry of Config.AdminHosts. It returns an error if the text is not a host
// name or an IP address without a port.
func ParseHost(text string) (string, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Is6() {
		text = "[" + text + "]"
	}
	host, ok := parseHost(text)
	if !ok {
		return "", fmt.Errorf("host must be a name or an IP address without scheme and port, "+
			"for example metrics.example or 10.0.0.7; got %q", text)
	}
	return host, nil
}
