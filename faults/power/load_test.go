//go:build linux

package power

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// bench has the parts that all cuts share.
type bench struct {
	disks   *diskFS
	program string
	eager   string // the program with earlyCheckpoints
	token   string
	bare    *disk // an empty ext4
	empty   *disk // ext4 with a store that has only the token
	seed    uint64
}

// earlyCheckpoints starts checkpoints sooner, since the WAL of a short recording is too short for one. It does not
// weaken the program.
var earlyCheckpoints = rig.Weakness{
	File: "internal/sqlite/checkpoint.go",
	Old:  "startFramesLarge = framesMax / 2", New: "startFramesLarge = 300",
}

const (
	storeName  = "plantstore.db"
	copiesName = "copies" // destination of the backups
	clients    = 8
	idsEach    = 1_000_000 // ids of each client

	// Percentages of the requests of a client; the others send new plants.
	replays, conflicts, erasures, corrections = 8, 4, 4, 4
)

// random returns the random source of a purpose.
func (b *bench) random(purpose, number int) *rand.Rand {
	return rand.New(rand.NewPCG(b.seed, uint64(purpose)<<32|uint64(number)))
}

// The purposes of random sources.
const (
	forLoad = iota
	forCut
	forSecondLoad
	forSecondCut
	forCreation
	forCopies
)

// sender is one client.
type sender struct {
	client *rig.Client
	server *rig.Server
	ledger *ledger
	disk   *disk
	random *rand.Rand
	next   int64   // id
	known  []int64 // ids whose last request was acknowledged for this client
	erases bool    // it is the operator too, for its own ids
}

func (s *sender) name() string {
	return fmt.Sprintf("plant %x%s", s.random.Uint64(), strings.Repeat(" leaf", s.random.IntN(20)))
}

// run sends plants until the context ends.
func (s *sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		n := s.random.IntN(100)
		if len(s.known) > 0 && n < replays+conflicts+erasures+corrections {
			i := s.random.IntN(len(s.known))
			switch id := s.known[i]; {
			case n < replays:
				s.create(ctx, id)
			case n < replays+conflicts:
				s.conflict(ctx, id)
			case s.erases:
				s.known = slices.Delete(s.known, i, i+1)
				s.change(ctx, id, n < replays+conflicts+erasures)
			}
			continue
		}
		s.ledger.send(s.next, s.name())
		s.create(ctx, s.next)
		s.next++
	}
}

// create sends a plant with its first name.
func (s *sender) create(ctx context.Context, id int64) {
	switch outcome, status := s.client.Create(ctx, s.server.URL, id, s.ledger.name(id)); outcome {
	case rig.Stored:
		s.ledger.ack(id, s.disk.position())
		if !slices.Contains(s.known, id) {
			s.known = append(s.known, id)
		}
	case rig.Conflict:
		s.ledger.fault("plant %d is a conflict, but all acknowledged requests had this name", id)
	case rig.Refused:
		s.ledger.fault("plant %d was refused with %d", id, status)
	case rig.Unknown, rig.Busy: // the store may have it
	}
}

// conflict sends a stored plant with another name.
func (s *sender) conflict(ctx context.Context, id int64) {
	if outcome, _ := s.client.Create(ctx, s.server.URL, id, s.name()); outcome == rig.Stored {
		s.ledger.fault("plant %d was acknowledged with another name", id)
	}
}

// change erases a stored plant, or corrects its name.
func (s *sender) change(ctx context.Context, id int64, erase bool) {
	path, name, body := "/plants/erase", "", any(map[string]any{"ids": []int64{id}})
	if !erase {
		name = s.name()
		path, body = fmt.Sprintf("/plants/%d/correct", id), map[string]any{"name": name}
	}
	s.ledger.send(id, name)
	status, text, err := s.server.Post(ctx, s.client.Token, path, body)
	switch {
	case err != nil, status == http.StatusServiceUnavailable: // the store may have it
	case status != http.StatusOK, erase && !strings.Contains(string(text), `"plants":1`):
		s.ledger.fault("plant %d was not changed by %s: %d %s", id, path, status, text)
	default:
		s.ledger.ack(id, s.disk.position())
		if !erase {
			s.known = append(s.known, id)
		}
	}
}

// load runs the clients until ctx ends. They first repeat the requests of r.again.
func (b *bench) load(ctx context.Context, server *rig.Server, d *disk, r run) {
	creator := &rig.Client{Token: b.token}
	defer creator.Close()
	var running sync.WaitGroup
	for i := range clients {
		s := &sender{
			client: creator,
			server: server, ledger: r.ledger, disk: d, erases: !r.copied,
			random: rand.New(rand.NewPCG(r.random.Uint64(), uint64(i))),
			next:   r.firstID + int64(i)*idsEach,
		}
		running.Go(func() {
			for at := i; at < len(r.again); at += clients {
				s.create(ctx, r.again[at])
			}
			s.run(ctx)
		})
	}
	running.Wait()
}

// run is the description of a recording.
type run struct {
	program  string
	start    *disk
	prepare  func(dir string, d *disk) // runs before the server starts; may be nil
	ledger   *ledger
	random   *rand.Rand
	duration time.Duration
	firstID  int64
	again    []int64 // plants to send again first
	weak     bool    // the program may read what it has not written, and so respond that a stored plant is missing
	copied   bool    // the server copies creates to the directory copiesName before it acknowledges them
}

// recording is the log of a run.
type recording struct {
	start   *disk // the state before the log
	log     []entry
	flushes int
	ready   int // position of the log when the server was ready
	ledger  *ledger
}

// record runs a server on a disk under load for a time and shuts it down. The log starts with the mount, so it includes
// the recovery of the file system and of the store.
func (b *bench) record(t *testing.T, of run) *recording {
	t.Helper()
	d := of.start.clone(true)
	r := &recording{start: of.start, ledger: of.ledger}
	dir, unmount := b.disks.mount(t, d)
	if of.prepare != nil {
		of.prepare(dir, d)
	}
	var flags []string
	if of.copied {
		copies := filepath.Join(dir, copiesName)
		if err := os.Mkdir(copies, 0o700); err != nil {
			t.Fatal(err)
		}
		flags = []string{"--backup-dir", copies, "--backup-lag", "1s", "--backup-sync"}
	}
	server, err := rig.Start(t, of.program, filepath.Join(dir, storeName), nil, flags...)
	if err != nil {
		t.Fatal(err)
	}
	r.ready = d.position()
	ctx, cancel := context.WithTimeout(t.Context(), of.duration)
	defer cancel()
	b.load(ctx, server, d, of)
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	r.log, r.flushes = d.stopLog()
	unmount()
	for _, fault := range of.ledger.drainFaults() {
		if of.weak {
			t.Log(fault)
		} else {
			t.Error(fault)
		}
	}
	return r
}

// recordAfter records the run after a first cut. The clients send plants with an unknown outcome again, and some
// acknowledged ones.
func (b *bench) recordAfter(t *testing.T, start *disk, w wanted, number int) *recording {
	t.Helper()
	const againMax = 100
	unknown, known := w.again()
	random := b.random(forSecondLoad, number)
	random.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	again := append(unknown[:min(len(unknown), againMax)], known[:min(len(known), againMax)]...)
	return b.record(t, run{
		program: b.program, start: start, ledger: ledgerOf(w), random: random,
		duration: 300 * time.Millisecond, firstID: idsEach*clients + 1, again: again,
	})
}
