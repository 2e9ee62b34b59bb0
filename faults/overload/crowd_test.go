package overload

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// patient and scarce restore the limits of an earlier version: any number of incomplete
// requests, and 96 MiB for the Go runtime.
var (
	patient = rig.Weakness{
		File: "cmd/plantstore/settingslisten.go",
		Old:  "\t\tIncomplete:  s.connections.incomplete.n,\n",
	}
	scarce = rig.Weakness{
		File: "cmd/plantstore/tune.go",
		Old:  "debug.SetMemoryLimit(memoryLimit(availableMemory()))",
		New:  "_ = availableMemory\n\t\tdebug.SetMemoryLimit(max(memoryLimit(0), 96<<20))",
	}
)

const (
	crowdShort    = 800
	incompleteMax = 512 // the default of --incomplete-max
)

// TestCrowd runs a well-behaved client beside many clients that never send a whole
// request, with the limits and, as the control, without them. The short form compares the
// numbers of open connections, the long form also the response times of the client.
func TestCrowd(t *testing.T) {
	limited, control := crowdServer(t, rig.Build(t)), crowdServer(t, rig.Build(t, patient, scarce))
	counts := map[string]int{"idle": crowdShort, "slow headers": crowdShort, "slow body": crowdShort}
	rounds := 1
	if *long {
		counts = map[string]int{"idle": 9000, "slow headers": 7000, "slow body": 1500}
		rounds = 5
	}
	for name, count := range counts {
		var withLimits, without []float64
		for range rounds {
			ratio, open := limited.beside(t, count, name)
			if open > incompleteMax+1 {
				t.Errorf("%s: %d connections are open, want at most %d", name, open, incompleteMax+1)
			}
			withLimits = append(withLimits, ratio)
			ratio, open = control.beside(t, count, name)
			if open <= incompleteMax+1 {
				t.Errorf("%s: the control has %d open connections: not detected", name, open)
			}
			without = append(without, ratio)
		}
		slices.Sort(withLimits)
		slices.Sort(without)
		t.Logf("%s, %d clients: p99 beside them is %.2f times that alone (%.2f–%.2f); control %.2f (%.2f–%.2f)",
			name, count, withLimits[rounds/2], withLimits[0], withLimits[rounds-1],
			without[rounds/2], without[0], without[rounds-1])
		if *long && withLimits[rounds/2] > 2 {
			t.Errorf("%s: p99 beside them is %.2f times that alone, want at most 2", name, withLimits[rounds/2])
		}
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

// beside returns the p99 of a client beside so many hostile clients, divided by its p99
// alone, and the number of open connections of the server.
func (s *crowdedServer) beside(t *testing.T, count int, kind string) (ratio float64, open int) {
	t.Helper()
	alone := p99(t, s.URL, s.token, s.from)
	stop := besiege(t, s.URL, count, hostile[kind])
	const accepted, evicted = 2 * time.Second, 6 * time.Second // by then
	for since := time.Now(); ; <-time.After(100 * time.Millisecond) {
		open = gauge(t, s.Admin, "plantstore_connections_open")
		if took := time.Since(since); took > evicted || took > accepted && open <= incompleteMax+1 {
			break
		}
	}
	beside := p99(t, s.URL, s.token, s.from+1000)
	stop()
	s.from += 10_000
	return float64(beside) / float64(alone), open
}
