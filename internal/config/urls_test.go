package config

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// TestConsoleURL tests the link of a listener with the name of this machine: the listener accepts only its address and
// the names of --admin-host.
func TestConsoleURL(t *testing.T) {
	t.Parallel()
	name, err := os.Hostname()
	if err == nil {
		_, err = net.DefaultResolver.LookupIPAddr(t.Context(), name)
	}
	if err != nil || name == "localhost" {
		t.Skipf("this machine has no other name: %s, %v", name, err)
	}
	s := &Settings{AdminListen: net.JoinHostPort(name, "8081")}
	at, err := s.ConsoleAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := netip.ParseAddrPort(at.Host); err != nil {
		t.Errorf("got %s, want an address: %v", at, err)
	}
	s.AdminHosts = []string{"ops.example"}
	if at, err := s.ConsoleAddress(t.Context()); err != nil || at.Host != "ops.example:8081" {
		t.Errorf("with --admin-host: got %s, %v", at, err)
	}
}
