package overload

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// patient and scarce restore the limits of an earlier version: any number of incomplete requests, and 96 MiB for the Go
// runtime.
var (
	patient = rig.Weakness{
		File: "internal/serve/connectionlimits.go",
		Old:  "\t\tIncomplete:  incompleteMax,\n",
	}
	scarce = rig.Weakness{
		File: "internal/serve/tune.go",
		Old:  "debug.SetMemoryLimit(memoryLimit(availableMemory()))",
		New:  "_ = availableMemory\n\t\tdebug.SetMemoryLimit(max(memoryLimit(0), 96<<20))",
	}
)

const (
	crowdShort    = 800
	incompleteMax = 512 // in internal/serve
)

// crowds are the clients of TestCrowd.
var crowds = []struct {
	kind        string
	short, long int  // numbers of clients in the two forms of the test
	incomplete  bool // their requests are incomplete
}{
	{"kept", crowdShort, 9000, false},
	{"idle", crowdShort, 9000, true},
	{"slow headers", crowdShort, 7000, true},
	{"slow body", crowdShort, 1500, true},
}

// TestCrowd runs a well-behaved client beside many clients that keep connections open or never send a whole request,
// with the limits and, as the control, without them. The test compares the numbers of open connections, and logs the
// response times of the client.
func TestCrowd(t *testing.T) {
	limited, control := crowdServer(t, rig.Build(t)), crowdServer(t, rig.Build(t, patient, scarce))
	rounds := 1
	if *long {
		rounds = 5
	}
	for _, crowd := range crowds {
		count := crowd.short
		if *long {
			count = crowd.long
		}
		var withLimits, without []float64
		for range rounds {
			ratio, open := limited.beside(t, count, crowd.kind, crowd.incomplete)
			if crowd.incomplete && open > incompleteMax+1 {
				t.Errorf("%s: %d connections are open, want at most %d", crowd.kind, open, incompleteMax+1)
			}
			withLimits = append(withLimits, ratio)
			ratio, open = control.beside(t, count, crowd.kind, false)
			if open <= incompleteMax+1 {
				t.Errorf("%s: the control has %d open connections: not detected", crowd.kind, open)
			}
			without = append(without, ratio)
		}
		slices.Sort(withLimits)
		slices.Sort(without)
		t.Logf("%s, %d clients: p99 beside them is %.2f times that alone (%.2f–%.2f); control %.2f (%.2f–%.2f)",
			crowd.kind, count, withLimits[rounds/2], withLimits[0], withLimits[rounds-1],
			without[rounds/2], without[0], without[rounds-1])
	}
}

// crowdedServer is a server beside which clients do not finish their requests.
type crowdedServer struct {
	*rig.Server
	token string
	from  int64 // the first id that is not used
}

func crowdServer(t *testing.T, program string) *crowdedServer {
	t.Helper()
	db := filepath.Join(t.TempDir(), "plants.db")
	token := rig.Token(t, program, db, "a")
	server, err := rig.Start(t, program, db, nil, "--request-timeout", "60s") // longer than a round
	if err != nil {
		t.Fatal(err)
	}
	return &crowdedServer{Server: server, token: token}
}

// beside returns the p99 of a client beside so many hostile clients, divided by its p99 alone, and the number of open
// connections of the server: at most incompleteMax of clients if few is true, and more otherwise, unless the server
// keeps to the other number for a minute.
func (s *crowdedServer) beside(t *testing.T, count int, kind string, few bool) (ratio float64, open int) {
	t.Helper()
	alone := p99(t, s.URL, s.token, s.from)
	stop := besiege(t, s.URL, count, hostile[kind])
	const accepted, late = 2 * time.Second, time.Minute
	for since := time.Now(); ; <-time.After(100 * time.Millisecond) {
		open = gauge(t, s.Server, s.token, "plantstore_connections_open")
		took := time.Since(since)
		if took > late || took > accepted && few == (open <= incompleteMax+1) {
			break
		}
	}
	beside := p99(t, s.URL, s.token, s.from+1000)
	stop()
	s.from += 10_000
	return float64(beside) / float64(alone), open
}
