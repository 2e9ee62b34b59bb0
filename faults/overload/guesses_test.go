package overload

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/faults/rig"
	"plantstore/internal/auth"
)

// The guesses are requests with well-formed tokens that the store does not have.
const (
	guessesOfAddress = 50
	guessesPerSecond = 2000
	// The creates of the client with a valid credential make the store and the caches of its pages grow. At a
	// constant pace their number does not depend on the machine.
	createEvery = 5 * time.Millisecond
)

// guessing is a round with guesses.
type guessing struct {
	name     string
	flags    []string
	guesses  int64                // in all
	address  func(n int64) net.IP // address of the client with that number
	p99Alone time.Duration
	p99      time.Duration
	grown    int64       // bytes of memory
	on       atomic.Bool // guesses are running
	statuses [600]atomic.Int64
}

func manyAddresses(n int64) net.IP { return net.IPv4(127, byte(1+n>>16), byte(n>>8), byte(n)) }

// oneAddress is the address of the client with a valid credential. So its connections never wait, and the limit of
// failed credentials is the only one.
func oneAddress(int64) net.IP { return net.IPv4(127, 0, 0, 1) }

// TestGuesses sends failed credentials from one address and from many, with the limit of failed credentials and without
// it, which is the control. It compares the responses of a client with a valid credential, and the memory of the
// server.
func TestGuesses(t *testing.T) {
	program := rig.Build(t)
	rounds, guesses := 1, int64(2_000)
	if *long {
		rounds, guesses = 1, 100_000
	}
	ratios := map[string][]float64{}
	for range rounds {
		for _, g := range []*guessing{
			{name: "one address", address: oneAddress},
			{name: "many addresses", address: manyAddresses},
			{name: "one address, no limit", address: oneAddress, flags: []string{"--auth-failures", "0"}},
			{name: "many addresses, no limit", address: manyAddresses, flags: []string{"--auth-failures", "0"}},
		} {
			if !*long && len(g.flags) > 0 {
				continue // the control of a comparison that only the long form makes
			}
			g.guesses = guesses
			g.run(t, program)
			ratio := float64(g.p99) / float64(g.p99Alone)
			ratios[g.name] = append(ratios[g.name], ratio)
			t.Logf("%s: p99 alone %s, beside %d guesses %s (%.2f); memory grew by %.1f MiB; 401: %d, 429: %d", g.name,
				g.p99Alone, guesses, g.p99, ratio, float64(g.grown)/(1<<20), g.statuses[401].Load(), g.statuses[429].Load())
			g.check(t)
		}
	}
	for name, list := range ratios {
		slices.Sort(list)
		median := list[len(list)/2]
		t.Logf("%s: p99 beside guesses is %.2f times that alone (%.2f–%.2f)", name, median, list[0], list[len(list)-1])
	}
}

// check checks the statuses of a round.
func (g *guessing) check(t *testing.T) {
	t.Helper()
	refused, limited := g.statuses[401].Load(), g.statuses[429].Load()
	if refused+limited != g.guesses {
		t.Errorf("%s: %d and %d responses with 401 and 429 to %d guesses", g.name, refused, limited, g.guesses)
	}
	switch {
	case len(g.flags) > 0 && limited > 0:
		t.Errorf("%s: %d responses with 429", g.name, limited)
	case len(g.flags) == 0 && limited < g.guesses/10:
		t.Errorf("%s: %d responses with 429 to %d guesses, want a tenth at least", g.name, limited, g.guesses)
	}
}

// run starts a server and runs a round.
func (g *guessing) run(t *testing.T, program string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "plants.db")
	token := rig.Token(t, program, db, "a")
	server, err := rig.Start(t, program, db, nil, g.flags...)
	if err != nil {
		t.Fatal(err)
	}
	warmUp(t, server.URL, token)
	before := memory(t, server.Command.Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	var guessers sync.WaitGroup
	guessers.Go(func() { g.guess(ctx, server.URL); cancel() })
	var alone, beside []time.Duration
	pace := time.NewTicker(createEvery)
	defer pace.Stop()
	for id := int64(0); ctx.Err() == nil; id++ {
		<-pace.C
		guesses, started := g.on.Load(), time.Now()
		status, _, err := post(t.Context(), server.URL, token, id)
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s: the client with a valid credential: %d, %v", g.name, status, err)
		}
		switch took := time.Since(started); {
		case guesses != g.on.Load(): // it belongs to both
		case guesses:
			beside = append(beside, took)
		default:
			alone = append(alone, took)
		}
	}
	guessers.Wait()
	if len(alone) == 0 || len(beside) == 0 {
		t.Fatalf("%s: %d responses in pauses and %d beside guesses", g.name, len(alone), len(beside))
	}
	g.p99Alone, g.p99 = percentile99(alone), percentile99(beside)
	g.grown = memory(t, server.Command.Process.Pid) - before
	if code := server.Stop(); code != 0 {
		t.Errorf("%s: the server ended with code %d:\n%s", g.name, code, server.Log())
	}
}

// warmUp creates plants from several clients, which fills caches, pools and the heap.
func warmUp(t *testing.T, url, token string) {
	t.Helper()
	const plants, warm = 100, 32
	var clients sync.WaitGroup
	for n := range int64(warm) {
		clients.Go(func() {
			for id := range int64(plants) {
				if status, _, err := post(t.Context(), url, token, -1-n*plants-id); err != nil || status != http.StatusOK {
					t.Errorf("warming up: %d, %v", status, err)
				}
			}
		})
	}
	clients.Wait()
}

func percentile99(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)*99/100]
}

// guess sends the guesses at a constant rate, in windows with a pause after each. So the load of other programs is the
// same with guesses and without. Each address has a connection.
func (g *guessing) guess(ctx context.Context, url string) {
	const window = 500 * time.Millisecond
	pace := time.NewTicker(time.Second * guessesOfAddress / guessesPerSecond)
	defer pace.Stop()
	for n := int64(0); n < g.guesses; {
		g.on.Store(true)
		var clients sync.WaitGroup
		for ended := time.Now().Add(window); n < g.guesses && time.Now().Before(ended); n += guessesOfAddress {
			<-pace.C
			address := g.address(n / guessesOfAddress)
			clients.Go(func() { g.guessFrom(ctx, url, address) })
		}
		clients.Wait()
		g.on.Store(false)
		<-time.After(window)
	}
}

// guessFrom sends the guesses of one address.
func (g *guessing) guessFrom(ctx context.Context, url string, address net.IP) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: address}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range guessesOfAddress {
		status, _, err := postWith(ctx, client, url, auth.Mint(), 1)
		if err == nil {
			g.statuses[status].Add(1)
		}
	}
}

// memory returns the resident memory of a process in bytes.
func memory(t *testing.T, pid int) int64 {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no VmRSS in:\n%s", text)
	}
	kib, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return kib << 10
}
