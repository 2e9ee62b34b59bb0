package config

import (
	"fmt"
	"net"
	"net/netip"
)

// writtenAddress returns the address of a listener. If it is all addresses of the machine, it returns the text of the
// setting, because Go listens on [::] for 0.0.0.0 and for no host.
func (s *Settings) writtenAddress(setting string, listener *net.TCPAddr) string {
	written := s.Listen
	if setting == "admin-listen" {
		written = s.AdminListen
	}
	host, _, _ := net.SplitHostPort(written) // a listener has the address
	if (listener.IP == nil || listener.IP.IsUnspecified()) && (host == "" || net.ParseIP(host).IsUnspecified()) {
		return written
	}
	return listener.String()
}

// Proxies returns the addresses of the trusted proxies. An address is the prefix of this address alone.
func (s *Settings) Proxies() []netip.Prefix {
	var prefixes []netip.Prefix
	for _, item := range s.TrustedProxies {
		if prefix, err := parsePrefix(item); err == nil { // Set checked every item
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

func checkPrefix(item string) error {
	_, err := parsePrefix(item)
	return err
}

func parsePrefix(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is not an IP address or prefix; use the form 192.0.2.7 or 10.0.0.0/8", text)
	case prefix.Bits() == 0:
		return netip.Prefix{}, fmt.Errorf(
			"%q has all addresses, so every client could choose its own; list only your proxies", text)
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has bits after its prefix; use %s, or the address without /%d",
			text, prefix.Masked(), prefix.Bits())
	}
	return prefix, nil
}
