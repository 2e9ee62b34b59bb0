package client_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"plantstore/client"
)

// TestFallbackDeadMachine tests that a machine that swallows connections, without refusing them, delays a create only
// until the time limit of a connection. Linux drops new connections to a listener whose queue is full.
func TestFallbackDeadMachine(t *testing.T) {
	t.Parallel()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprintf("127.0.0.1:%d", address.(*syscall.SockaddrInet4).Port)
	queued, err := net.Dial("tcp", dead)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = queued.Close() })
	c := newClient(t, "http://"+dead, client.WithFallback("http://"+newScripted(t, created).Addr().String()),
		client.WithAttemptTimeout(time.Hour), client.WithRetryFor(time.Hour))
	if _, err := c.Create(t.Context(), client.NewPlant{}); err != nil {
		t.Error(err)
	}
}
