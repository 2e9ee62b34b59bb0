package limit_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"plantstore/internal/limit"
)

// networkOf returns the network with a number.
func networkOf(i int) limit.Network {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], uint32(i))
	return limit.NetworkOf(netip.AddrFrom4(address))
}

func TestSlots(t *testing.T) {
	t.Parallel()
	s := limit.NewSlots[string](2)
	for i, row := range []struct {
		key  string
		free int
		ok   bool
	}{
		{"a", 1, true},
		{"a", 0, true},
		{"a", 0, false},
		{"b", 1, true},
	} {
		if free, ok := s.Acquire(row.key); free != row.free || ok != row.ok {
			t.Errorf("step %d: got %d, %v, want %d, %v", i, free, ok, row.free, row.ok)
		}
	}
	s.Release("a")
	if free, ok := s.Acquire("a"); free != 0 || !ok {
		t.Errorf("after Release: got %d, %v, want 0, true", free, ok)
	}
}
