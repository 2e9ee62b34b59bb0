package config

import (
	"fmt"
	"net"
	"net/netip"
)

// Connections are the limits of the connections of the public listener.
type Connections struct {
	Max, PerAddress Count
}

// rows returns the rows of the table of settings.
func (s *Connections) rows() []Setting {
	return []Setting{
		{
			"connections-max", s.Max.between(0, 1<<20), "0",
			"number of open `connections` of the public listener; 0: automatic",
			"0 is at most 10000, and fewer if memory or the limit of open files is small. That limit, without 64 files, " +
				"is also the largest possible number. See [limits](connections.md#limits).",
		},
		{
			"connections-per-address", s.PerAddress.between(0, 1<<20), "1000",
			"number of open `connections` of one client address; 0: no limit",
			"An IPv6 client is its prefix of 64 bits. Loopback addresses and `--trusted-proxies` have no such limit.",
		},
	}
}

// writtenAddress returns the address of a listener. If it is all addresses of the machine, it returns the text of the
// setting, because Go listens on [::] for 0.0.0.0 and for no host.
func (s *Settings) writtenAddress(setting string, listener net.Addr) string {
	written := string(s.Listen)
	if setting == "admin-listen" {
		written = string(s.AdminListen)
	}
	host, _, _ := net.SplitHostPort(written) // a listener has the address
	if listener.(*net.TCPAddr).IP.IsUnspecified() && (host == "" || net.ParseIP(host).IsUnspecified()) {
		return written
	}
	return listener.String()
}

// Proxies are the settings of a server behind proxies.
type Proxies struct {
	Trusted  List
	Protocol Toggle
}

// rows returns the rows of the table of settings.
func (p *Proxies) rows() []Setting {
	return []Setting{
		{
			"trusted-proxies", p.Trusted.of(checkPrefix), "",
			"`addresses` of proxies that may name the address of a client",
			"IP addresses and prefixes such as `10.0.0.0/8` or `2001:db8::/32`, with commas between them. List only proxies " +
				"that you operate: they can name any address, in `Forwarded` or `X-Forwarded-For`, or with " +
				"`--proxy-protocol`. The prefixes of all addresses, `0.0.0.0/0` and `::/0`, are refused. " +
				"See [client addresses](limits.md#client-addresses).",
		},
		{
			"proxy-protocol", &p.Protocol, "", "require a PROXY header from each trusted proxy",
			"The public listener then expects a PROXY header, of version 1 or 2, at the beginning of each connection from " +
				"an address in `--trusted-proxies`. It must arrive within `--request-timeout`. The listener accepts no header " +
				"from another address. See [connections](connections.md#proxy-protocol).",
		},
	}
}

// check refuses a PROXY protocol that no proxy may use.
func (p *Proxies) check(s *Settings) error {
	if bool(p.Protocol) && len(p.Trusted.Items) == 0 {
		return s.Fault("proxy-protocol",
			"no proxy may send the header; set --trusted-proxies to the addresses of the proxies")
	}
	return nil
}

// Prefixes returns the addresses of the trusted proxies. An address is the prefix of this address alone.
func (p *Proxies) Prefixes() []netip.Prefix {
	var prefixes []netip.Prefix
	for _, item := range p.Trusted.Items {
		if prefix, err := parsePrefix(item); err == nil { // Set checked every item
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// HeaderPrefixes returns the addresses of the proxies whose Forwarded or X-Forwarded-For counts. With the PROXY
// protocol no header counts: such a proxy forwards the bytes of its clients, who can send any header.
func (p *Proxies) HeaderPrefixes() []netip.Prefix {
	if p.Protocol {
		return nil
	}
	return p.Prefixes()
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
