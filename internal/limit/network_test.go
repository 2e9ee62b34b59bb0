package limit_test

import (
	"net/netip"
	"testing"

	"plantstore/internal/limit"
)

func TestNetworkOf(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, a, b string
		same       bool
	}{
		{"IPv4", "192.0.2.1", "192.0.2.1", true},
		{"neighbours of IPv4", "192.0.2.1", "192.0.2.2", false},
		{"IPv4-mapped", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"IPv4-mapped neighbours", "::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"one /64", "2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"two /64", "2001:db8::1", "2001:db8:0:1::1", false},
		{"zone", "fe80::1%eth0", "fe80::2%eth1", true},
		{"IPv4 and an IPv6 network with its bits", "192.0.2.1", "0:0:c000:201::", false},
		{"IPv4 and ::", "0.0.0.0", "::", false},
	} {
		a, b := limit.NetworkOf(netip.MustParseAddr(row.a)), limit.NetworkOf(netip.MustParseAddr(row.b))
		if got := a == b; got != row.same {
			t.Errorf("%s: %s and %s in one network: got %v, want %v", row.name, row.a, row.b, got, row.same)
		}
	}
	_ = limit.NetworkOf(netip.Addr{}) // does not panic
}
