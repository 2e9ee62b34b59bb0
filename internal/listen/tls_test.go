package listen_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"plantstore/internal/listen"
)

// TestReadWhileClosing closes a connection whose client then sends the rest of a request: its handler could not
// respond.
func TestReadWhileClosing(t *testing.T) {
	t.Parallel()
	c, client := listen.NewBare(listen.Limits{}).Connect(netip.MustParseAddr("192.0.2.7"))
	c.BeginClose()
	go func() { _, _ = client.Write([]byte("x")) }()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("read %d bytes, %v; want net.ErrClosed", n, err)
	}
}
