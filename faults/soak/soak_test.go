// Package soak runs the program under a steady load for a long time. It detects resources that only grow, and stored
// plants that differ from the acknowledged ones.
//
//	go test -count=1 ./soak                                    the short form: 20 s, with the control
//	go test -count=1 -timeout 0 -v ./soak -args -long          an hour
//	go test -count=1 -timeout 0 -v ./soak -args -for 10m       another duration
//	go test -count=1 -v ./soak -args -seed 7                   the same plants and requests again
//
// The load is a constant 400 requests a second: new plants, replays, conflicts, invalid bodies, invalid credentials and
// aborted requests, on persistent and on new connections. At the same time the harness creates and revokes tokens,
// lists plants and makes backups, and the server makes scheduled backups. The seed determines every request, but not
// the requests that run at the same time.
//
// The harness samples resident memory, Go's heap, goroutines and descriptors at least a hundred times. The first tenth
// of the samples is warm-up and is ignored. The median of the last quarter may exceed that of the first quarter by a
// tenth and 24 MiB for memory, and by 16 for goroutines and descriptors. Resident memory excludes SQLite's page cache:
// the size of the store, up to 32 MiB. Within an hour this detects a leak of 35 bytes a request, or of one goroutine in
// 60,000 requests.
//
// An export must have every acknowledged plant once, with its content, and no plant that was not sent, was sent in part
// or was sent with an invalid credential. verify must find no damage, and every response must conform to the API. The
// harness skips a request that it cannot send in time, so a slow machine reduces the load; a run with less than half of
// the load fails.
//
// The control is a program that leaks with each request, and loses, alters and invents plants. The same checks must
// detect each of these.
package soak

import (
	"flag"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	long   = flag.Bool("long", false, "run for an hour")
	length = flag.Duration("for", 0, "run for this `duration` instead")
	seed   = flag.Uint64("seed", 0, "seed of the plants and the requests; 0: random")
)

const shortTime = 20 * time.Second

// TestControl shows that the checks detect each kind of fault. The short form does not check growth and rate.
func TestControl(t *testing.T) {
	t.Parallel()
	r := soak(t, rig.Build(t, faulty...), shortTime)
	kinds := []string{lost, altered, neverSent, wrongResponse}
	if *long {
		for _, m := range measures {
			kinds = append(kinds, m.name)
		}
	}
	for _, kind := range kinds {
		first, count := r.faults.of(kind)
		if count == 0 {
			t.Errorf("%s: not detected", kind)
			continue
		}
		t.Logf("%s: detected %d times, first: %s", kind, count, first)
	}
}

// TestSoak fails on any fault.
func TestSoak(t *testing.T) {
	t.Parallel()
	duration := shortTime
	if *long {
		duration = time.Hour
	}
	if *length > 0 {
		duration = *length
	}
	r := soak(t, rig.Build(t), duration)
	r.faults.report(t)
}

// faulty is a program that leaks 16 KiB with each plant, and a goroutine and a descriptor with each hundredth. Of a
// hundred plants it loses one, alters one, and stores another one beside one.
var faulty = []rig.Weakness{
	{
		File: "internal/server/plants.go",
		Old:  "replayed, err := p.writePath.Create(c.span, c.Principal, n)",
		New: `leak()
	sent := n
	switch uint64(n.ID) % 100 {
	case 0:
		c.WriteJSON(http.StatusOK, append(sent.Plant.AppendJSON(nil), '\n'))
		return nil
	case 1:
		n.Name += "!"
	case 2:
		other := n
		other.ID++
		_, _ = p.writePath.Create(nil, c.Principal, other)
	}
	replayed, err := p.writePath.Create(c.span, c.Principal, n)
	n = sent`,
	},
	{File: "internal/server/leak.go", New: `package server

import (
	"bytes"
	"os"
	"sync"
)

var leaked struct {
	sync.Mutex
	memory [][]byte
	files  []*os.File
}

func leak() {
	leaked.Lock()
	defer leaked.Unlock()
	leaked.memory = append(leaked.memory, bytes.Repeat([]byte("leak "), 16<<10/5))
	if len(leaked.memory)%100 > 0 {
		return
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		panic(err)
	}
	leaked.files = append(leaked.files, f)
	go func() { select {} }()
}
`},
}
