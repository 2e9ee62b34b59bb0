//go:build linux

package power

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	seedFlag   = flag.Uint64("seed", 1, "seed of the load and of the cuts")
	imagesFlag = flag.Int("images", 0, "number of cuts; 0: 60, or 10,000 with -long")
	indexFlag  = flag.Int("index", -1, "make only the cut with this number")
	longFlag   = flag.Bool("long", false, "make many more cuts; give -timeout too")
	keptFlag   = flag.String("kept", "", "check the saved image in this directory again")
)

const (
	shortImages, longImages = 60, 10_000
	controlImages           = 12 // on an idle machine nearly all lose plants
	controlRecordings       = 30
	perRecording            = 30
	secondEach              = 12 // one of so many cuts precedes a second cut
	startEach               = 4  // one of so many stores is served before its check
	loadTime                = 2 * time.Second
)

// images returns the number of cuts that the flags select.
func images() int {
	switch {
	case *imagesFlag > 0:
		return *imagesFlag
	case *longFlag:
		return longImages
	default:
		return shortImages
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	needDevices(t)
	b := &bench{
		disks: newDiskFS(t), program: rig.Build(t), eager: rig.Build(t, earlyCheckpoints), bare: newDisk(), seed: *seedFlag,
	}
	// Lazy initialization would write long after the mount, between the writes of the store.
	command := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", "-b", "4096",
		"-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", b.disks.add(t, b.bare))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("mkfs: %v\n%s", err, out)
	}
	b.empty = b.bare.clone(false)
	dir, unmount := b.disks.mount(t, b.empty)
	b.token = rig.Token(t, b.program, filepath.Join(dir, storeName), "power")
	unmount()
	return b
}

// totals are the figures of a test.
type totals struct {
	images, second, recordings, flushes, acked int
	lossy, lost, changed, foreign              int
	unreadable, verify                         int
	unflushed, saved                           int
}

func (s *totals) add(f *findings) {
	s.images++
	s.lost += f.lost
	s.changed += f.changed
	s.foreign += f.foreign
	if f.lost > 0 {
		s.lossy++
	}
	if f.unreadable != "" {
		s.unreadable++
	}
	if f.verify != "" {
		s.verify++
	}
}

func (s *totals) String() string {
	return fmt.Sprintf("%d images (%d of them second cuts) of %d recordings with %d flushes and %d acknowledged changes: "+
		"%d images lost %d plants, %d changed or not erased, %d never sent, %d unreadable, %d damaged for verify; "+
		"%.1f unflushed blocks a cut",
		s.images, s.second, s.recordings, s.flushes, s.acked, s.lossy, s.lost, s.changed, s.foreign, s.unreadable, s.verify,
		float64(s.unflushed)/float64(max(1, s.images)))
}

// TestCut cuts the power while clients create plants and erase and correct some of them. The store must have every
// acknowledged plant with its last acknowledged name, no erased one, and only plants that were sent.
func TestCut(t *testing.T) {
	t.Parallel()
	if *keptFlag != "" {
		t.Skip("only one saved image is checked")
	}
	b := newBench(t)
	first, end := 0, images()
	if *indexFlag >= 0 {
		first, end = *indexFlag, *indexFlag+1
	}
	sum, started := &totals{}, time.Now()
	for from := first; from < end; {
		number := from / perRecording
		to := min(end, (number+1)*perRecording)
		t.Run(fmt.Sprintf("recording%d", number), func(t *testing.T) { b.cutAll(t, number, from, to, sum) })
		t.Logf("seed %d, cuts to %d, %v: %v", b.seed, to, time.Since(started).Round(time.Second), sum)
		from = to
	}
}

// cutAll makes one recording and its cuts.
func (b *bench) cutAll(t *testing.T, number, from, to int, sum *totals) {
	program := b.program
	if number%2 == 0 {
		program = b.eager
	}
	r := b.record(t, run{
		program: program, start: b.empty, ledger: newLedger(), random: b.random(forLoad, number),
		duration: loadTime, firstID: 1,
	})
	sum.recordings++
	sum.flushes += r.flushes
	sum.acked += r.ledger.acked()
	for i := from; i < to; i++ {
		t.Run(fmt.Sprintf("image%d", i), func(t *testing.T) { b.cutOne(t, r, i, sum) })
	}
}

func (b *bench) cutOne(t *testing.T, r *recording, number int, sum *totals) {
	random := b.random(forCut, number)
	at := 1 + random.IntN(len(r.log))
	d, w := r.start.cut(r.log, at, random), r.ledger.wantedAt(at)
	sum.unflushed += unflushed(r.log, at)
	b.checkImage(t, d, w, number, sum)
	if number%secondEach != secondEach-1 || t.Failed() {
		return
	}
	defer func() { // also if the server does not start
		if t.Failed() {
			sum.save(t, d, w)
		}
	}()
	again := b.recordAfter(t, d, w, number)
	random = b.random(forSecondCut, number)
	end := len(again.log)
	if random.IntN(2) == 0 && again.ready > 0 {
		end = again.ready // half of the second cuts come during the recovery
	}
	at = 1 + random.IntN(end)
	sum.second++
	sum.unflushed += unflushed(again.log, at)
	b.checkImage(t, d.cut(again.log, at, random), again.ledger.wantedAt(at), number, sum)
}

// checkImage checks the store on a disk, and saves a disk with a fault.
func (b *bench) checkImage(t *testing.T, d *disk, w wanted, number int, sum *totals) {
	t.Helper()
	dir, unmount := b.disks.mount(t, d.clone(false))
	defer unmount()
	db := filepath.Join(dir, storeName)
	if number%startEach == startEach-1 {
		server, err := rig.Start(t, b.program, db, nil)
		if err != nil {
			t.Errorf("seed %d, index %d: %v", b.seed, number, err)
		} else if code := server.Stop(); code != 0 {
			t.Errorf("seed %d, index %d: the server ended with code %d:\n%s", b.seed, number, code, server.Log())
		}
	}
	f := b.check(t, db, w, number%2 == 0)
	sum.add(f)
	if !f.ok() {
		t.Errorf("seed %d, index %d: of %d acknowledged plants: %v", b.seed, number, len(w.kept()), f)
	}
	if t.Failed() {
		sum.save(t, d, w)
	}
}

// check reads a store with the program's commands. The first of them recovers the WAL.
func (b *bench) check(t *testing.T, db string, w wanted, verifyFirst bool) *findings {
	t.Helper()
	f := &findings{}
	if verifyFirst {
		f.verify = b.verify(t, db)
	}
	plants, err := rig.Export(t, b.program, db)
	if err != nil {
		f.unreadable = err.Error()
	} else {
		f.compare(plants, w)
	}
	if !verifyFirst {
		f.verify = b.verify(t, db)
	}
	return f
}

// verify returns the output of a failed verify, or "".
func (b *bench) verify(t *testing.T, db string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), b.program, "verify", "--db", db)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Sprintf("%v: %s", err, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}
