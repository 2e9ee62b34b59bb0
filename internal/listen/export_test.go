package listen

import (
	"io"
	"net"
	"testing"
	"time"
)

// ExpireAccept makes Accept fail.
func (l *Listener) ExpireAccept(t *testing.T) {
	t.Helper()
	if err := l.tcp.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}

// ReadHeader reads a PROXY header. It returns the client, which is nil if the header
// names none, and the reader of the bytes after the header.
func ReadHeader(c net.Conn) (client net.Addr, rest io.Reader, err error) {
	var a announcement
	err = a.read(c, time.Minute)
	return a.client, readerFunc(func(p []byte) (int, error) { return a.next(c, p) }), err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// SetAge sets the state of a connection as if it had begun so long ago.
func (c *Conn) SetAge(s State, age time.Duration) {
	c.state.Store(int64(newStamp(s, clock()-age)))
}

// Sweep evicts connections as the sweeper does.
func (l *Listener) Sweep() { l.evict(l.open.sweep()) }

// Counts returns the numbers of open connections and of client addresses.
func (l *Listener) Counts() (connections, addresses int) {
	l.open.mu.Lock()
	defer l.open.mu.Unlock()
	return len(l.open.conns), len(l.open.byAddress)
}

const IncompleteGrace = incompleteGrace
