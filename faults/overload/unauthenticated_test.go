package overload

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// TestUnauthenticatedClients runs a client with a valid credential beside another one that asks for an unknown path, as
// fast as it can. The server closes the connections of the other one and holds its new ones. It refuses no plant.
func TestUnauthenticatedClients(t *testing.T) {
	server, token := floodServer(t, rig.Build(t))
	stop, _ := flood(t, server.URL, 20, func(int64) net.IP { return net.IPv4(127, 0, 0, 2) })
	const line = `msg="clients without a valid credential limited"`
	limited := false
	for id := int64(0); id < 100 || !limited; id++ {
		if status, _, err := post(t.Context(), server.URL, token, id); err != nil || status != http.StatusOK {
			t.Fatalf("plant %d: %d, %v", id, status, err)
		}
		limited = strings.Contains(server.Log(), line)
	}
	stop()
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
}

func floodServer(t *testing.T, program string) (server *rig.Server, token string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "plants.db")
	token = rig.Token(t, program, db, "a")
	server, err := rig.Start(t, program, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return server, token
}

// single and unlimited restore earlier limits: only a limit for each address, and none for known addresses.
var (
	single = rig.Weakness{
		File: "internal/listen/unauthenticated.go",
		Old:  "\tunitsOfAll      = 1000\n",
		New:  "\tunitsOfAll      = 1_000_000\n",
	}
	unlimited = rig.Weakness{
		File: "internal/listen/unauthenticated.go",
		Old:  "\tknownUnits      = 2000\n",
		New:  "\tknownUnits      = 1_000_000\n",
	}
)

// TestFloods runs a client with a valid credential beside requests without one, from 4,000 addresses and from the
// address of the client. It compares the number of responses to them with the units, logs the response times of the
// client and, in the long form, shows that it detects the lack of each limit.
func TestFloods(t *testing.T) {
	for _, f := range []struct {
		name         string
		address      func(n int64) net.IP
		most, second float64 // units
		weak         rig.Weakness
	}{
		{"many addresses", func(n int64) net.IP { return manyAddresses(n % 4000) }, 1000, 100, single},
		{"own address", oneAddress, 2000, 500, unlimited},
	} {
		const conns = 200
		beside := func(name, program string) (excess float64) {
			server, token := floodServer(t, program)
			alone := times(t, server.URL, token, 0)
			began := time.Now()
			stop, responses := flood(t, server.URL, conns, f.address)
			flooded := times(t, server.URL, token, 1000)
			stop()
			slices.Sort(alone)
			slices.Sort(flooded)
			ratio := func(percent int) float64 {
				n := len(alone) * percent / 100
				return float64(flooded[n]) / float64(alone[n])
			}
			t.Logf("%s: p50 beside them is %.2f times that alone, p99 %.2f times", name, ratio(50), ratio(99))
			// A connection has a last response without a unit, and one of a known address is served each second.
			return float64(responses.Load()) - f.most - conns - (f.second+conns)*time.Since(began).Seconds()
		}
		rounds := 1
		if *long {
			rounds = 5
		}
		for range rounds {
			if n := beside(f.name, rig.Build(t)); n > 0 {
				t.Errorf("%s: %.0f responses more than units", f.name, n)
			}
			if *long && beside(f.name+", control", rig.Build(t, f.weak)) <= 0 {
				t.Errorf("%s: not detected", f.name)
			}
		}
	}
}

// flood sends requests without a credential on so many connections, as fast as it can, and counts the responses. stop
// ends it.
func flood(
	t *testing.T, url string, conns int64, address func(n int64) net.IP,
) (stop func(), responses *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	responses = &atomic.Int64{}
	var clients sync.WaitGroup
	for first := range conns {
		clients.Go(func() {
			for n := first; ctx.Err() == nil; n += conns {
				askForNothing(ctx, strings.TrimPrefix(url, "http://"), address(n), responses)
			}
		})
	}
	return func() { cancel(); clients.Wait() }, responses
}

// askForNothing sends requests without a credential on a connection until it ends.
func askForNothing(ctx context.Context, server string, from net.IP, responses *atomic.Int64) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	c, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for reader := bufio.NewReader(c); ; responses.Add(1) {
		if _, err := io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return
		}
		_, err = io.Copy(io.Discard, response.Body)
		if errors.Join(err, response.Body.Close()) != nil || response.Close {
			return
		}
	}
}

// TestLocalFlood runs health checks while another program on the machine sends requests to the admin listener, or fills
// it with connections. In the long form it shows that it detects the lack of each rule.
func TestLocalFlood(t *testing.T) {
	for _, f := range []struct {
		name  string
		begin func(t *testing.T, url string) (stop func())
		weak  rig.Weakness
	}{
		{"requests", func(t *testing.T, url string) func() {
			t.Helper()
			stop, _ := flood(t, url, 100, oneAddress)
			return stop
		}, rig.Weakness{File: "internal/serve/connectionlimits.go", Old: "\t\tUncharged:   loopback(),\n"}},
		{"connections", fill, rig.Weakness{
			File: "internal/listen/registry.go",
			Old:  "\t\tfound = largestOwnersFirst(r.since(Incomplete, now))\n",
		}},
	} {
		const checks, most = 10, 3
		if n := failedChecks(t, rig.Build(t), checks, f.begin); n > most {
			t.Errorf("%s: %d of %d health checks failed", f.name, n, checks)
		}
		if !*long {
			continue
		}
		if n := failedChecks(t, rig.Build(t, f.weak), checks, f.begin); n <= most {
			t.Errorf("%s: not detected, %d of %d health checks failed", f.name, n, checks)
		}
	}
}

// failedChecks returns the number of health checks that fail during a flood.
func failedChecks(t *testing.T, program string, checks int, begin func(*testing.T, string) func()) (failed int) {
	t.Helper()
	server, _ := floodServer(t, program)
	defer begin(t, server.Admin)()
	<-time.After(time.Second) // until the flood has used all units and places
	for range checks {
		address := strings.TrimPrefix(server.Admin, "http://")
		if exec.CommandContext(t.Context(), program, "health", "--admin-listen", address).Run() != nil {
			failed++
		}
	}
	return failed
}

// fill keeps more connections open than the admin listener has places.
func fill(t *testing.T, url string) (stop func()) {
	t.Helper()
	const conns = 1000
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range conns {
		clients.Go(func() {
			for ctx.Err() == nil {
				var dialer net.Dialer
				c, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
				if err != nil {
					continue
				}
				ended := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = c.Read(make([]byte, 1)) // until the server closes it
				ended()
				_ = c.Close()
			}
		})
	}
	return func() { cancel(); clients.Wait() }
}
