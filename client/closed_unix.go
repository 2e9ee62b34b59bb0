//go:build unix

package client

import (
	"crypto/tls"
	"errors"
	"syscall"
	"time"
)

// closed reports whether the server has closed an idle connection, or sent data that belongs to no request.
func (c *conn) closed() bool {
	inner := c.Conn
	if secure, ok := inner.(*tls.Conn); ok {
		inner = secure.NetConn()
	}
	tcp, ok := inner.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil || c.SetReadDeadline(time.Time{}) != nil {
		return true
	}
	open := false
	err = raw.Read(func(fd uintptr) bool {
		n, err := syscall.Read(int(fd), make([]byte, 1)) // does not block
		open = n < 0 && errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err != nil || !open
}
