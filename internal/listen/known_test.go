package listen_test

import (
	"net/netip"
	"testing"
	"time"

	"plantstore/internal/limit"
	"plantstore/internal/listen"
)

// network returns one of many networks.
func network(n int) limit.Network {
	return limit.NetworkOf(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}))
}

const owner, thief = 1, 2 // credentials

// A credential that is used from more addresses than the table has room for makes no other client known, and nobody
// else unknown.
func TestKnownOfManyAddresses(t *testing.T) {
	t.Parallel()
	k := listen.NewKnown()
	const own, others = 0, 1
	k.Admit(network(own), owner, 0)
	for n := range 2 * listen.NetworksMax {
		k.Admit(network(others+n), thief, time.Second)
	}
	known := 0
	for n := range 3 * listen.NetworksMax {
		if k.Has(network(others+n), time.Second) {
			known++
		}
	}
	if known != listen.KnownPerCredential {
		t.Errorf("%d networks of a credential are known, want %d", known, listen.KnownPerCredential)
	}
	if !k.Has(network(own), listen.KnownFor-1) || k.Has(network(own), listen.KnownFor) {
		t.Error("the network of another credential is not known for its time")
	}
	const late = others + 5*listen.NetworksMax
	k.Admit(network(late), thief, listen.KnownFor)
	if !k.Has(network(late), listen.KnownFor) {
		t.Error("the credential makes no network known after the time of its first ones")
	}
}

// A full table forgets the networks whose last valid credential was the longest ago.
func TestFullKnown(t *testing.T) {
	t.Parallel()
	k := listen.NewKnown()
	const tables = 3
	for n := range tables * listen.NetworksMax {
		k.Admit(network(1+n), int64(n/listen.KnownPerCredential), 0)
		if n%(listen.NetworksMax/2) == 0 {
			k.Admit(network(0), owner, 0)
		}
	}
	known := 0
	for n := range tables * listen.NetworksMax {
		if k.Has(network(1+n), 0) {
			known++
		}
	}
	if known > 2*listen.NetworksMax {
		t.Errorf("%d networks are known, want at most %d", known, 2*listen.NetworksMax)
	}
	if !k.Has(network(0), 0) || !k.Has(network(tables*listen.NetworksMax), 0) || k.Has(network(1), 0) {
		t.Error("other networks are known than the last ones")
	}
}
