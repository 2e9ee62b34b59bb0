package listen

import (
	"math"
	"net"
	"sync/atomic"
	"time"
)

// deadline is the read or the write deadline of a connection. net/http changes both several times a request, mostly to
// a later time, and each change moves a timer of the runtime. So an earlier deadline of the TCP connection stays until
// it has passed, and the read or write that it ends continues with the later one. It is safe for concurrent use.
type deadline struct {
	setTCP func(tcp net.Conn, t time.Time) error // SetReadDeadline or SetWriteDeadline

	wanted atomic.Int64 // by the caller, in nanoseconds of clock; never: none
	tcp    atomic.Int64 // in force on the TCP connection
}

const never = math.MaxInt64

func (d *deadline) init(setTCP func(net.Conn, time.Time) error) {
	d.setTCP = setTCP
	d.wanted.Store(never)
	d.tcp.Store(never)
}

// set sets the deadline; the zero time removes it.
func (d *deadline) set(tcp net.Conn, t time.Time) error {
	wanted := int64(never)
	if !t.IsZero() {
		wanted = int64(t.Sub(started))
	}
	d.wanted.Store(wanted)
	if wanted >= d.tcp.Load() {
		return nil
	}
	return d.move(tcp, wanted)
}

// extend moves the deadline of the TCP connection after it has ended an operation, which can then continue. It returns
// false if the wanted deadline has passed too.
func (d *deadline) extend(tcp net.Conn) bool {
	return d.wanted.Load() > int64(clock()) && d.restore(tcp) == nil
}

// postpone moves the deadline that was wanted before a wait, unless another one has been set since.
func (d *deadline) postpone(tcp net.Conn, wanted int64, by time.Duration) error {
	if wanted == never || !d.wanted.CompareAndSwap(wanted, wanted+int64(by)) {
		return nil
	}
	return d.restore(tcp)
}

// restore sets the wanted deadline on the TCP connection, even if set changes it at the same time.
func (d *deadline) restore(tcp net.Conn) error {
	for {
		wanted := d.wanted.Load()
		if err := d.move(tcp, wanted); err != nil || d.wanted.Load() == wanted {
			return err
		}
	}
}

func (d *deadline) move(tcp net.Conn, to int64) error {
	d.tcp.Store(to)
	if to == never {
		return d.setTCP(tcp, time.Time{})
	}
	return d.setTCP(tcp, started.Add(time.Duration(to)))
}
