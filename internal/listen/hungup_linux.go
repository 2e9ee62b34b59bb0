package listen

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hasHungUp reports whether the client, or the server, has closed the connection. It reads nothing of it.
func hasHungUp(c net.Conn) bool {
	withDescriptor, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := withDescriptor.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(events, 0)
		closed = err == nil && n > 0
	})
	return closed || err != nil
}
