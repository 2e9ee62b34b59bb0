package listen

import (
	"net"
	"testing"
	"time"
)

// deadlineConn records the read deadline, and calls during before it changes.
type deadlineConn struct {
	net.Conn // nil: only SetReadDeadline is called
	during   func()
	deadline time.Time
}

// SetReadDeadline implements net.Conn.
func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	if during := c.during; during != nil {
		c.during = nil
		during()
	}
	c.deadline = t
	return nil
}

// TestDeadlineIsSetDuringExtend tests that a deadline that is set while a read extends the passed one is not lost:
// net/http ends its reads in this way.
func TestDeadlineIsSetDuringExtend(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]time.Time{"earlier": time.Unix(1, 0), "later": time.Now().Add(2 * time.Hour)} {
		c := &deadlineConn{}
		var d deadline
		d.init(net.Conn.SetReadDeadline)
		for _, at := range []time.Time{time.Now(), time.Now().Add(time.Hour)} {
			if err := d.set(c, at); err != nil {
				t.Fatal(err)
			}
		}
		c.during = func() {
			if err := d.set(c, last); err != nil {
				t.Error(err)
			}
		}
		if !d.extend(c) || !c.deadline.Equal(last) {
			t.Errorf("%s: the deadline is %v, want %v", name, c.deadline, last)
		}
	}
}

// TestPostpone tests that a deadline that is set after the start of a wait is not postponed.
func TestPostpone(t *testing.T) {
	t.Parallel()
	c := &deadlineConn{}
	var d deadline
	d.init(net.Conn.SetReadDeadline)
	first, last := time.Now().Add(time.Hour), time.Unix(1, 0)
	if err := d.set(c, first); err != nil {
		t.Fatal(err)
	}
	before := d.wanted.Load()
	if err := d.postpone(c, before, time.Hour); err != nil || !c.deadline.Equal(first.Add(time.Hour)) {
		t.Errorf("got %v, %v", c.deadline, err)
	}
	if err := d.set(c, last); err != nil {
		t.Fatal(err)
	}
	if err := d.postpone(c, before, time.Hour); err != nil || !c.deadline.Equal(last) {
		t.Errorf("got %v, %v", c.deadline, err)
	}
}
