package listen_test

import (
	"errors"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/listen"
)

var (
	someone = netip.MustParseAddr("192.0.2.7")
	another = netip.MustParseAddr("192.0.2.8")
)

// manyth returns one of many addresses.
func manyth(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// bare returns a listener for a bubble of synctest. The caller ends it with StopSweeper.
func bare(limits listen.Limits) *listen.Listener {
	time.Sleep(time.Second - listen.Clock()) //nolint:forbidigo // the bubble begins in the year 2000, before the process
	return listen.NewBare(limits)
}

// readMax is the time of a read as net/http sets it before the first one.
const readMax = time.Second

// connect opens a connection to a bare listener and reads from it. It returns the time until then.
func connect(l *listen.Listener, client netip.Addr) (*listen.Conn, time.Duration, error) {
	c, end := l.Connect(client)
	began := time.Now()
	_ = c.SetReadDeadline(began.Add(readMax))
	go func() {
		_, _ = end.Write([]byte("x")) // fails when the connection is closed
		_ = end.Close()
	}()
	_, err := c.Read(make([]byte, 1))
	took := time.Since(began)
	_ = c.Close()
	return c, took, err
}

// flood opens connections of clients at a pace until stop is called.
type flood struct {
	ended   chan struct{}
	conns   sync.WaitGroup
	mu      sync.Mutex            // guards the rest
	served  map[int]time.Duration // the waits of the served connections, by their number
	refused []time.Duration       // the waits of the others
}

func floodOf(l *listen.Listener, every time.Duration, client func(n int) netip.Addr) *flood {
	f := &flood{ended: make(chan struct{}), served: map[int]time.Duration{}}
	f.conns.Go(func() {
		pace := time.NewTicker(every)
		defer pace.Stop()
		for n := 0; ; n++ {
			f.conns.Go(func() {
				_, took, err := connect(l, client(n))
				f.mu.Lock()
				defer f.mu.Unlock()
				if err != nil {
					f.refused = append(f.refused, took)
					return
				}
				f.served[n] = took
			})
			select {
			case <-f.ended:
				return
			case <-pace.C:
			}
		}
	})
	return f
}

// stop ends the flood, and waits for its connections. It returns the number of those that were served before.
func (f *flood) stop() int {
	f.mu.Lock()
	served := len(f.served)
	f.mu.Unlock()
	close(f.ended)
	f.conns.Wait()
	return served
}

// Beyond its units, the connections of a client are served in their order, each with one of the units that come back.
// The listener refuses those that it cannot serve within 5 s. Other clients do not wait.
func TestUnauthenticatedClientsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{})
		defer l.StopSweeper()
		for range listen.NetworkUnits {
			if _, took, err := connect(l, someone); took != 0 || err != nil {
				t.Fatalf("waited %s, %v", took, err)
			}
		}
		const pace, seconds = 40 * time.Millisecond, 30 // 25 a second
		f := floodOf(l, pace, func(int) netip.Addr { return someone })
		time.Sleep(seconds * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if _, took, err := connect(l, another); took != 0 || err != nil {
			t.Errorf("another client waited %s, %v", took, err)
		}
		if n := f.stop(); n < 20*seconds-2 || n > 20*seconds {
			t.Errorf("served %d connections in %d s, want 20 a second", n, seconds)
		}
		last := time.Duration(0)
		for _, n := range slices.Sorted(maps.Keys(f.served)) {
			took := f.served[n]
			at := time.Duration(n)*pace + took
			if at < last || took > 5*time.Second {
				t.Errorf("connection %d was served after %s, and a later one before", n, took)
			}
			last = at
		}
		if len(f.refused) == 0 {
			t.Error("no connection was refused")
		}
		for _, took := range f.refused {
			if took != 5*time.Second {
				t.Errorf("a connection was refused after %s", took)
			}
		}
	})
}

// The time of a read begins after the wait.
func TestReadDeadlineAfterWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := exhausted()
		defer l.StopSweeper()
		silent, _ := l.Connect(someone)
		defer silent.Close()
		began := time.Now()
		_ = silent.SetReadDeadline(began.Add(readMax))
		_, err := silent.Read(make([]byte, 1))
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took <= readMax || took > 2*readMax {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// The requests of open connections use the units too, but none that a connection waits for.
func TestCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, c := exhausted()
		defer l.StopSweeper()
		if c.Charge(netip.Addr{}) {
			t.Error("a client has a unit that it has used up")
		}
		if !c.Charge(another) {
			t.Error("a client that a proxy names has the units of the proxy")
		}
		ended := make(chan error)
		go func() {
			_, _, err := connect(l, someone)
			ended <- err
		}()
		time.Sleep(75 * time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
		if c.Charge(netip.Addr{}) {
			t.Error("a request uses the unit of a connection that waits")
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		if !c.Charge(netip.Addr{}) {
			t.Error("no unit has come back in a minute")
		}
	})
}

// exhausted returns a listener in a bubble of synctest, with an open connection of a client that has no units left.
// The caller calls StopSweeper.
func exhausted() (*listen.Listener, *listen.Conn) {
	l := bare(listen.Limits{})
	open, _ := l.Connect(someone)
	for open.Charge(netip.Addr{}) {
	}
	return l, open
}

// A request with a valid credential ends the wait of the connections of its network.
func TestKnownNetworksDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, open := exhausted()
		defer l.StopSweeper()
		var waiting sync.WaitGroup
		for range 200 { // more than the line has room for
			waiting.Go(func() {
				if _, took, err := connect(l, someone); took > time.Second || err != nil {
					t.Errorf("a connection waited %s, %v", took, err)
				}
			})
		}
		synctest.Wait() // until they wait
		open.Admit(another, owner)
		synctest.Wait()
		open.Admit(netip.Addr{}, owner)
		waiting.Wait()
	})
}

// A connection beyond the line is not refused at the end of its wait if its network is known by then.
func TestKnownAtTheEndOfTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, open := exhausted()
		defer l.StopSweeper()
		var waiting sync.WaitGroup
		for range 200 {
			waiting.Go(func() {
				if _, took, err := connect(l, someone); took > 4*time.Second && err != nil {
					t.Errorf("a connection of a known network was refused after %s", took)
				}
			})
		}
		time.Sleep(4500 * time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
		open.Admit(netip.Addr{}, owner)
		waiting.Wait()
	})
}

// Unauthenticated clients in the network of a client with a valid credential have a higher limit. Beyond it, a new
// connection waits for a second at most, because it may be the client's. Connections with a valid credential cost
// nothing.
func TestUnauthenticatedClientsInKnownNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{})
		defer l.StopSweeper()
		good, _ := l.Connect(someone)
		good.Admit(netip.Addr{}, owner)
		for range 3 * listen.KnownUnits {
			c, took, err := connect(l, someone)
			if took != 0 || err != nil {
				t.Fatalf("a client with a valid credential waited %s, %v", took, err)
			}
			c.Admit(netip.Addr{}, owner)
		}
		charged := 0
		for good.Charge(netip.Addr{}) {
			charged++
		}
		if charged != listen.KnownUnits {
			t.Errorf("%d requests, want %d", charged, listen.KnownUnits)
		}
		var waiting sync.WaitGroup
		for range 500 {
			waiting.Go(func() {
				if _, took, err := connect(l, someone); took > time.Second || err != nil {
					t.Errorf("a connection waited %s, %v", took, err)
				}
			})
		}
		waiting.Wait()
		if !good.Charge(someone) {
			t.Error("a known client that a proxy names has a limit")
		}
	})
}

// All unauthenticated clients together have a limit too. A flood from many addresses does not delay a known client, and
// a new one only until the next unit: the client that was served the longest ago is first.
func TestUnauthenticatedClientsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{})
		defer l.StopSweeper()
		const good, fresh, seconds = 4000, 4001, 10
		c, _ := l.Connect(manyth(good))
		c.Admit(netip.Addr{}, owner)
		for n := range listen.UnitsOfAll {
			if _, took, err := connect(l, manyth(n)); took != 0 || err != nil {
				t.Fatalf("connection %d waited %s, %v", n, took, err)
			}
		}
		f := floodOf(l, 2*time.Millisecond, func(n int) netip.Addr { return manyth(n % listen.UnitsOfAll) })
		time.Sleep(seconds * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if n := l.Waiting(); n > listen.WaitingMax || n < listen.WaitingMax-20 {
			t.Errorf("%d connections wait, want %d", n, listen.WaitingMax)
		}
		if _, took, err := connect(l, manyth(good)); took != 0 || err != nil {
			t.Errorf("a known client waited %s, %v", took, err)
		}
		if _, took, err := connect(l, manyth(fresh)); took > 200*time.Millisecond || err != nil {
			t.Errorf("a new client waited %s, %v", took, err)
		}
		if !c.Charge(another) {
			t.Error("a client that a proxy names has no units")
		}
		if n := f.stop(); n < 100*seconds-10 || n > 100*seconds+20 {
			t.Errorf("served %d connections in %d s, want 100 a second", n, seconds)
		}
	})
}

// exhaust uses up the units of two clients, which are those of all.
func exhaust(l *listen.Listener) {
	for _, client := range []netip.Addr{someone, another} {
		c, _ := l.Connect(client)
		for c.Charge(netip.Addr{}) {
		}
	}
}

// A flood from addresses that do not repeat does not keep out a client that was served before.
func TestFloodFromFreshAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{})
		defer l.StopSweeper()
		regular := netip.MustParseAddr("192.0.2.9")
		if _, took, err := connect(l, regular); took > 0 || err != nil {
			t.Fatalf("waited %s, %v", took, err)
		}
		exhaust(l)
		f := floodOf(l, 5*time.Millisecond, manyth)
		for n := range 10 {
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
			if _, took, err := connect(l, regular); took > 200*time.Millisecond || err != nil {
				t.Errorf("connection %d waited %s, %v", n, took, err)
			}
		}
		f.stop()
	})
}

// Full lines do not keep out those who always come at the same time after the units.
func TestPlacesInFullLines(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(int) netip.Addr{
		"one client":   func(int) netip.Addr { return someone },
		"many clients": manyth,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := bare(listen.Limits{})
				defer l.StopSweeper()
				exhaust(l)
				const every, perSweep = 4 * time.Millisecond, 25
				f := floodOf(l, every, client)
				time.Sleep(20 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
				f.stop()
				served := [perSweep]int{}
				for n := range f.served {
					if n > 10*int(time.Second/every) { // the lines are full
						served[n%perSweep]++
					}
				}
				if slices.Min(served[:]) == 0 {
					t.Errorf("served by the time of their arrival: %d", served)
				}
			})
		})
	}
}

// Clients that a proxy names have units of their own, but no total: the requests of some do not refuse others. More
// of them than the listener remembers share the units of one.
func TestForwardedUnauthenticatedClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{})
		defer l.StopSweeper()
		c, _ := l.Connect(someone)
		for n := range listen.NetworksMax + listen.NetworkUnits {
			if !c.Charge(manyth(n)) {
				t.Fatalf("client %d has no unit", n)
			}
		}
		if c.Charge(another) {
			t.Error("clients without a place have no limit")
		}
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		for n := range listen.NetworkUnits {
			if !c.Charge(another) {
				t.Fatalf("request %d is refused", n)
			}
		}
		if c.Charge(another) {
			t.Error("a client has no limit")
		}
	})
}

// Each of the networks with waiting connections is served in turn, however many connections it has.
func TestUnauthenticatedClientsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{})
		defer l.StopSweeper()
		const greedy, modest = 99, 100
		f := floodOf(l, 4*time.Millisecond, func(n int) netip.Addr { return manyth(n % greedy) })
		time.Sleep(15 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		for range 5 {
			if _, took, err := connect(l, manyth(modest)); took > 2*time.Second || err != nil {
				t.Errorf("a client with one connection at a time waited %s, %v", took, err)
			}
		}
		f.stop()
	})
}

// A connection whose client has a valid credential costs nothing.
func TestValidConnectionsCostNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{})
		defer l.StopSweeper()
		for n := range 2 * listen.NetworksMax {
			c, took, err := connect(l, manyth(n))
			if took != 0 || err != nil {
				t.Fatalf("connection %d waited %s, %v", n, took, err)
			}
			c.Admit(netip.Addr{}, owner)
		}
	})
}

// Proxies with many clients, and addresses that cost nothing, have no limit.
func TestUnlimitedAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(listen.Limits{
			Proxies:   []netip.Prefix{netip.PrefixFrom(someone, 32)},
			Uncharged: []netip.Prefix{netip.PrefixFrom(another, 32)},
		})
		defer l.StopSweeper()
		for range 2 * listen.NetworkUnits {
			for _, client := range []netip.Addr{someone, another} {
				if c, took, err := connect(l, client); took != 0 || err != nil || !c.Charge(netip.Addr{}) {
					t.Fatalf("%s waited %s, %v", client, took, err)
				}
			}
		}
	})
}

// The end of a listener ends every wait.
func TestRetireWithWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := exhausted()
		defer l.StopSweeper()
		const connections = 200 // more than the line of a client has room for
		ended := make(chan error)
		for range connections {
			go func() {
				_, _, err := connect(l, someone)
				ended <- err
			}()
		}
		synctest.Wait() // until they wait
		began := time.Now()
		l.RetireBare()
		for range connections {
			if err := <-ended; !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want EOF", err)
			}
		}
		if took, n := time.Since(began), l.Waiting(); took != 0 || n != 0 {
			t.Errorf("after %s, %d connections wait", took, n)
		}
	})
}
