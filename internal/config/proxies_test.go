package config

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	s := Settings{TrustedProxies: []string{"192.0.2.7", "10.0.0.0/8", "2001:db8::/32", "::1", "::ffff:192.0.2.8"}}
	var want []netip.Prefix
	for _, text := range []string{"192.0.2.7/32", "10.0.0.0/8", "2001:db8::/32", "::1/128", "192.0.2.8/32"} {
		want = append(want, netip.MustParsePrefix(text))
	}
	if diff := cmp.Diff(want, s.Proxies(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("prefixes (-want +got):\n%s", diff)
	}
}
