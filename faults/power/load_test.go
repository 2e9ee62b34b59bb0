//go:build linux

package power

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// bench is what all cuts share.
type bench struct {
	shelf   *shelf
	program string
	eager   string // the program with earlyCheckpoints
	token   string
	bare    *disk // ext4
	empty   *disk // ext4 with a store that has the token
	seed    uint64
}

// earlyCheckpoints is no weakness: in the short time of a recording the WAL
// would not get so long that it is copied and begun anew, so do that sooner.
var earlyCheckpoints = rig.Weakness{
	File: "internal/sqlite/checkpoint.go",
	Old:  "startFramesLarge = 8192", New: "startFramesLarge = 300",
}

const (
	storeName = "plantstore.db"
	clients   = 8
	idsEach   = 1_000_000 // ids of one client are below those of the next

	// The shares of what a client sends, in percent; the rest is new plants.
	sameAgain, otherContent = 8, 4
)

// chance is a source of choices for a purpose.
func (b *bench) chance(purpose, number int) *rand.Rand {
	return rand.New(rand.NewPCG(b.seed, uint64(purpose)<<32|uint64(number)))
}

// The purposes.
const (
	forLoad = iota
	forCut
	forSecondLoad
	forSecondCut
	forCreation
)

// sender is one client.
type sender struct {
	client rig.Client
	url    string
	ledger *ledger
	disk   *disk
	chance *rand.Rand
	next   int64   // id
	known  []int64 // ids that were acknowledged to this client
}

func (s *sender) name() string {
	return fmt.Sprintf("plant %x%s", s.chance.Uint64(), strings.Repeat(" leaf", s.chance.IntN(20)))
}

// run sends until the context ends.
func (s *sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		if n := s.chance.IntN(100); len(s.known) > 0 && n < sameAgain+otherContent {
			id := s.known[s.chance.IntN(len(s.known))]
			if n < sameAgain {
				s.create(ctx, id)
			} else {
				s.contradict(ctx, id)
			}
			continue
		}
		s.ledger.send(s.next, s.name())
		s.create(ctx, s.next)
		s.next++
	}
}

// create sends a plant as it was first sent.
func (s *sender) create(ctx context.Context, id int64) {
	switch outcome, status := s.client.Create(ctx, s.url, id, s.ledger.content(id)); outcome {
	case rig.Stored:
		s.ledger.ack(id, s.disk.position())
		s.known = append(s.known, id)
	case rig.Conflict:
		s.ledger.fault("plant %d is said to be another, but it was sent with this content only", id)
	case rig.Refused:
		s.ledger.fault("plant %d was refused with %d", id, status)
	case rig.Unknown, rig.Busy: // it may be there, or not
	}
}

// contradict sends a plant that is stored with other content.
func (s *sender) contradict(ctx context.Context, id int64) {
	if outcome, _ := s.client.Create(ctx, s.url, id, s.name()); outcome == rig.Stored {
		s.ledger.fault("plant %d was acknowledged with another content", id)
	}
}

// load runs the clients for a time. At first they share what is sent again.
func (b *bench) load(ctx context.Context, url string, d *disk, what run) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	var running sync.WaitGroup
	for i := range clients {
		s := &sender{
			client: rig.Client{Token: b.token, HTTP: http.Client{Transport: transport}},
			url:    url, ledger: what.ledger, disk: d,
			chance: rand.New(rand.NewPCG(what.chance.Uint64(), uint64(i))),
			next:   what.firstID + int64(i)*idsEach,
		}
		running.Go(func() {
			for at := i; at < len(what.again); at += clients {
				s.create(ctx, what.again[at])
			}
			s.run(ctx)
		})
	}
	running.Wait()
}

// run is what is to be recorded.
type run struct {
	program string
	start   *disk
	prepare func(dir string, d *disk) // before the server starts; nil for nothing
	ledger  *ledger
	chance  *rand.Rand
	long    time.Duration
	firstID int64
	again   []int64 // plants that are sent again at first
}

// recording is what was written during a run.
type recording struct {
	start   *disk // as it was when the log began
	log     []entry
	flushes int
	ready   int // where the log was when the server was ready
	ledger  *ledger
}

// record runs a server on a disk under load for a time, and ends it in order.
// The log begins with the mount, so it has the recovery of the file system and
// of the store too.
func (b *bench) record(t *testing.T, what run) *recording {
	t.Helper()
	d := what.start.clone(true)
	r := &recording{start: what.start, ledger: what.ledger}
	dir, unmount := b.shelf.mount(t, d)
	if what.prepare != nil {
		what.prepare(dir, d)
	}
	server, err := rig.Start(t, what.program, filepath.Join(dir, storeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.ready = d.position()
	ctx, cancel := context.WithTimeout(t.Context(), what.long)
	defer cancel()
	b.load(ctx, server.URL, d, what)
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	r.log, r.flushes = d.takeLog()
	unmount()
	for _, fault := range what.ledger.takeFaults() {
		t.Error(fault)
	}
	return r
}

// recordAfter records the run after a first cut: clients send the plants again
// whose fate they do not know, and some that were acknowledged.
func (b *bench) recordAfter(t *testing.T, start *disk, w wanted, number int) *recording {
	t.Helper()
	const againMax = 100
	unknown, known := w.unacked(), slices.Sorted(maps.Keys(w.Acked))
	chance := b.chance(forSecondLoad, number)
	chance.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	again := append(unknown[:min(len(unknown), againMax)], known[:min(len(known), againMax)]...)
	return b.record(t, run{
		program: b.program, start: start, ledger: ledgerOf(w), chance: chance,
		long: 300 * time.Millisecond, firstID: idsEach*clients + 1, again: again,
	})
}
