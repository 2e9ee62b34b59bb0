// Package soak puts a steady load on the program for long, and looks for what
// only time shows: what grows and never shrinks, and a count that is not exact.
//
//	go test -count=1 ./soak                                    the short form: 20 s, and the control
//	go test -count=1 -timeout 0 -v ./soak -args -long          an hour
//	go test -count=1 -timeout 0 -v ./soak -args -for 10m       another time
//	go test -count=1 -v ./soak -args -seed 7                   the same plants and requests again
//
// The load is 400 requests a second, so many and not as many as possible: new
// plants, the same again, others under their ids, invalid bodies, wrong
// credentials and requests that are broken off, some on connections that are
// kept and some on new ones. Beside it tokens are made and revoked, plants are
// listed, and backups are made by a command and by the server itself. The seed
// decides what each request is, but not when it meets which other.
//
// What is flat: resident memory, Go's heap, goroutines and descriptors are
// looked at some hundred times or more. The first tenth is warm-up and does not
// count. Of the rest, the median of the last quarter must not be above that of
// the first by more than a tenth and 24 MiB, for the two kinds of memory; by
// more than 16, for goroutines and descriptors. Resident memory is counted
// without what SQLite's page cache may hold: the store, up to 32 MiB. In an hour
// that notices 35 bytes that are kept of each request, or a goroutine of every
// 60,000.
//
// What is exact: each plant that was acknowledged is in an export once, with
// the content that was sent; none is there that was not sent, or only in part,
// or with a wrong credential; verify finds nothing, and no answer was another
// than the API has it. A request that could not be sent in time is left out, so
// a slow machine makes the load smaller; less than half of it does not count.
//
// The control is a program that leaks a little with each request, and loses,
// alters and invents a plant now and then. The same rules must notice each.
package soak

import (
	"flag"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	long   = flag.Bool("long", false, "an hour")
	length = flag.Duration("for", 0, "that `time`, instead of what the form has")
	seed   = flag.Uint64("seed", 0, "what decides the plants and the requests; 0: another each time")
)

const shortTime = 20 * time.Second

// TestControl shows that each kind of fault is noticed. It comes first: a soak
// says nothing if it is not.
func TestControl(t *testing.T) {
	r := soak(t, rig.Build(t, faulty...), shortTime)
	kinds := []string{lost, altered, neverSent, wrongAnswer}
	for _, m := range measures {
		kinds = append(kinds, m.name)
	}
	for _, kind := range kinds {
		first, count := r.faults.of(kind)
		if count == 0 {
			t.Errorf("%s: not noticed", kind)
			continue
		}
		t.Logf("%s: noticed %d times, first: %s", kind, count, first)
	}
}

// TestSoak wants no fault at all.
func TestSoak(t *testing.T) {
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

// faulty is a program that keeps 16 KiB of each plant that it is sent, and a
// goroutine and a descriptor of each hundredth. Of a hundred plants it loses
// one, alters one, and stores one beside another.
var faulty = []rig.Weakness{
	{File: "internal/server/plants.go", Old: "replayed, err := p.store.Create(who, n)", New: `leak()
	sent := n
	switch uint64(n.ID) % 100 {
	case 0:
		writeJSON(w, http.StatusOK, append(sent.Plant.AppendJSON(nil), '\n'))
		return nil
	case 1:
		n.Name += "!"
	case 2:
		other := n
		other.ID++
		_, _ = p.store.Create(who, other)
	}
	replayed, err := p.store.Create(who, n)
	n = sent`},
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
	leaked.memory = append(leaked.memory, bytes.Repeat([]byte("kept "), 16<<10/5))
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
