package listen_test

import (
	"errors"
	"io"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/listen"
)

var (
	stranger = netip.MustParseAddr("192.0.2.7")
	another  = netip.MustParseAddr("192.0.2.8")
)

// connect opens a connection to a bare listener and reads from it. It returns the time until then.
func connect(l *listen.Listener, client netip.Addr) (*listen.Conn, time.Duration, error) {
	c, end := l.Connect(client)
	began := time.Now()
	go func() {
		_, _ = end.Write([]byte("x")) // fails when the connection is closed
		_ = end.Close()
	}()
	_, err := c.Read(make([]byte, 1))
	took := time.Since(began)
	_ = c.Close()
	return c, took, err
}

// Beyond its units, each new connection of a client without a valid credential waits longer than the one before, and
// then is closed. Other clients do not wait.
func TestStrangersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen.NewBare(listen.Limits{})
		for range listen.StrangerUnits {
			if _, took, err := connect(l, stranger); took != 0 || err != nil {
				t.Fatalf("waited %s, %v", took, err)
			}
		}
		if _, took, err := connect(l, stranger); took != 50*time.Millisecond || err != nil {
			t.Errorf("the first one beyond the units waited %s, %v", took, err)
		}
		c, _ := l.Connect(stranger)
		for range 200 {
			c.Charge(netip.Addr{})
		}
		if _, took, err := connect(l, stranger); took != 5*time.Second || !errors.Is(err, io.EOF) {
			t.Errorf("one beyond all waited %s, %v; want EOF", took, err)
		}
		if _, took, err := connect(l, another); took != 0 || err != nil {
			t.Errorf("another client waited %s, %v", took, err)
		}
		if c.Charge(netip.Addr{}) {
			t.Error("a client has a unit that it has used up")
		}
		if !c.Charge(another) {
			t.Error("a client that a proxy names has the units of the proxy")
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		if !c.Charge(netip.Addr{}) {
			t.Error("no unit has come back in a minute")
		}
	})
}

// exhausted returns a listener in a bubble of synctest, with an open connection of a stranger who has no units left.
func exhausted() (*listen.Listener, *listen.Conn) {
	time.Sleep(-listen.Clock()) //nolint:forbidigo // the bubble begins in the year 2000, before the process
	l := listen.NewBare(listen.Limits{})
	open, _ := l.Connect(stranger)
	for range 2 * listen.StrangerUnits {
		open.Charge(netip.Addr{})
	}
	return l, open
}

// A request with a valid credential ends the limit of its network, also for connections that wait.
func TestKnownNetworksDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, open := exhausted()
		waited := make(chan time.Duration)
		go func() {
			_, took, err := connect(l, stranger)
			if err != nil {
				t.Error(err)
			}
			waited <- took
		}()
		synctest.Wait() // until it waits
		open.Admit(another)
		synctest.Wait()
		open.Admit(netip.Addr{})
		if took := <-waited; took != time.Second {
			t.Errorf("a connection waited %s after the network was known", took)
		}
		for range 2 * listen.StrangerUnits {
			if !open.Charge(netip.Addr{}) {
				t.Fatal("a known network has a limit")
			}
		}
	})
}

// A connection is not refused at the end of its wait if its network is known by then.
func TestKnownAtTheEndOfTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, open := exhausted()
		const connections = 50
		ended := make(chan error)
		for range connections {
			go func() {
				_, _, err := connect(l, stranger)
				ended <- err
			}()
		}
		time.Sleep(4500 * time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
		open.Admit(netip.Addr{})
		refused := 0
		for range connections {
			if <-ended != nil {
				refused++
			}
		}
		if refused > 0 {
			t.Errorf("%d of %d connections of a known network were refused", refused, connections)
		}
	})
}

// A connection whose response is not a refusal costs no unit. A proxy with many clients has no limit.
func TestRefundedConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen.NewBare(listen.Limits{Proxies: []netip.Prefix{netip.PrefixFrom(another, 32)}})
		for range 2 * listen.StrangerUnits {
			c, took, err := connect(l, stranger)
			if took != 0 || err != nil {
				t.Fatalf("waited %s, %v", took, err)
			}
			c.Refund()
			c.Refund() // once
			if c, took, err = connect(l, another); took != 0 || err != nil || !c.Charge(netip.Addr{}) {
				t.Fatalf("the proxy waited %s, %v", took, err)
			}
		}
	})
}
