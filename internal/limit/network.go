// Package limit counts the use of each client: failed credentials, requests and concurrent requests. It also limits log
// lines. Its memory is bounded, and its times are monotonic, so the clock of the machine does not matter.
package limit

import (
	"encoding/binary"
	"net/netip"
)

// Network is a key for the addresses that one client can use: a single IPv4 address or an IPv6 network of 64 bits, the
// smallest one that a provider assigns (RFC 6177).
type Network struct {
	bits uint64 // the IPv4 address, or the first half of the IPv6 address
	v6   bool
}

// NetworkOf returns the network of an address. An IPv4-mapped IPv6 address is an IPv4 address; a zone is ignored. The
// networks of all invalid addresses are equal.
func NetworkOf(address netip.Addr) Network {
	address = address.Unmap()
	if address.Is4() {
		b := address.As4()
		return Network{bits: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := address.As16()
	return Network{bits: binary.BigEndian.Uint64(b[:8]), v6: true}
}
