package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// URLsMax is the most webhooks of a server.
const URLsMax = 16

const urlBytesMax = 2048

// CheckURL returns an error unless a text is the URL of a webhook: https with a host, and no user or fragment. If
// private addresses are allowed, http is too. An address in the URL must be allowed.
func CheckURL(text string, allowPrivate bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return errors.New("it is not a URL; use the form https://plants.example/events")
	case len(text) > urlBytesMax:
		return fmt.Errorf("it has %d bytes; use at most %d", len(text), urlBytesMax)
	case u.User != nil:
		return errors.New("a URL cannot have a user; receivers verify the signature")
	case strings.Contains(text, "#"):
		return errors.New("a URL cannot have a fragment")
	case u.Scheme == "http" && !allowPrivate:
		return errors.New("it has no TLS; use https, or set webhook-allow-private for a receiver in your own network")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q is not a scheme of webhooks; use https", u.Scheme)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !allowPrivate {
		return checkPublic(ip)
	}
	return nil
}

// newDialer returns the dialer of deliveries. It checks the address of each connection after the name is resolved, so a
// name cannot lead to another address later.
func newDialer(allowPrivate bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	const dialTimeMax = 10 * time.Second
	d := net.Dialer{Timeout: dialTimeMax}
	if !allowPrivate {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return checkPublic(to.Addr())
		}
	}
	return d.DialContext
}

// checkPublic returns an error unless an address is reachable from the whole Internet.
func checkPublic(ip netip.Addr) error {
	if ip.Zone() == "" && isPublic(ip) {
		return nil
	}
	return fmt.Errorf("the address is not public: %s; set webhook-allow-private for a receiver in your own network", ip)
}

// special4 are the IPv4 networks of the registry of RFC 6890 that are not globally reachable, and multicast
// (https://www.iana.org/assignments/iana-ipv4-special-registry).
var special4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
)

// special6 are the networks in 2000::/3 that are not globally reachable, or that reach an IPv4 address
// (https://www.iana.org/assignments/iana-ipv6-special-registry).
var special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

var (
	global6 = netip.MustParsePrefix("2000::/3")     // RFC 4291 section 2.4: the allocated global unicast addresses
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052 section 2.1
)

func isPublic(ip netip.Addr) bool {
	switch {
	case ip.Is4():
		return !anyContains(special4, ip)
	case nat64.Contains(ip):
		bytes := ip.As16()
		return isPublic(netip.AddrFrom4([4]byte(bytes[12:])))
	default: // IPv4-mapped addresses are outside of 2000::/3
		return global6.Contains(ip) && !anyContains(special6, ip)
	}
}

func anyContains(all []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
