package copies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/faults/rig"
	"plantstore/internal/s3/s3test"
)

// The ways in which the machine of an owner lives on while another one takes over.
const (
	alive         = "alive"
	paused        = "paused"
	cutFromDir    = "cut off from a directory"
	cutFromBucket = "cut off from a bucket"
)

// TestTakeOver replaces the machine of a server, which lives on and gets plants from its clients: it was only paused,
// or cut off from the destination for a while, or nobody has stopped it. The old server must end by itself. With
// --backup-sync a restore has every plant that any of the servers has acknowledged; without it, the plants of the old
// server that the restore lacks are counted, and restored by --timeline.
func TestTakeOver(t *testing.T) {
	program := rig.Build(t, rig.HastyMerges...)
	takes, owners := 1, 2
	if *long {
		takes, owners = 40, 4
	}
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	for _, sync := range []bool{true, false} {
		for _, way := range []string{alive, paused, cutFromDir, cutFromBucket} {
			plants, left := 0, 0
			for range takes {
				r := takeOver(t, program, random, way, sync, owners)
				if err := errors.Join(r.violations[:min(5, len(r.violations))]...); err != nil {
					t.Fatalf("%s, sync %v: %d violations, the first: %v", way, sync, len(r.violations), err)
				}
				plants += r.plants
				left += r.lost
			}
			t.Logf("%s, sync %v: %d times to another machine: %d acknowledged plants, %d of them only in other timelines",
				way, sync, takes*(owners-1), plants, left)
		}
	}
}

// forgetsOwner acknowledges commits without reading the owner after them.
var forgetsOwner = rig.Weakness{
	File: "internal/backup/copy.go",
	Old:  "\tif err == nil && c.unowned {",
	New:  "\tif err == nil && c.unowned && c.commits < 0 {",
}

// TestTakeOverControl shows that TestTakeOver detects a server that does not read the owner.
func TestTakeOverControl(t *testing.T) {
	program := rig.Build(t, append([]rig.Weakness{forgetsOwner}, rig.HastyMerges...)...)
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	for range controlRounds {
		if len(takeOver(t, program, random, alive, true, 2).violations) > 0 {
			return
		}
	}
	t.Errorf("the harness has not detected it in %d rounds", controlRounds)
}

// owner is a machine whose server owns the destination, or has owned it.
type owner struct {
	*machine

	route
	timeline string // set when another machine takes over
}

// takeOver has one machine take over from another, for a number of owners, and loses the last one.
func takeOver(t *testing.T, program string, random *rand.Rand, way string, sync bool, owners int) (r result) {
	t.Helper()
	to := newPlace(t, way == cutFromBucket)
	var all []*owner
	for n := range owners {
		o := &owner{machine: emptyMachine(t, program, random, sync), route: to.route(t, random)}
		o.to = o.address
		var flags []string
		if n > 0 {
			before := all[n-1]
			switch way {
			case paused:
				before.signal(syscall.SIGSTOP)
			case alive:
			default:
				before.cut()
			}
			o.db, o.token = filepath.Join(t.TempDir(), "plantstore.db"), before.token
			if out, err := exec.Command(program, "restore", to.address, "--db", o.db).CombinedOutput(); err != nil {
				t.Fatalf("restore: %v\n%s", err, out)
			}
			err := o.start(t, o.before)
			id := regexp.MustCompile(`--take-over ([0-9a-f]{16})`).FindStringSubmatch(fmt.Sprint(err))
			if !errors.Is(err, rig.ErrEnded) || id == nil {
				t.Fatalf("the server of a restored store was not refused: %v", err)
			}
			before.timeline, flags = id[1], []string{"--take-over", id[1]}
		}
		if err := o.start(t, o.before, flags...); err != nil {
			t.Fatal(err)
		}
		rig.Within(t, time.Minute, 10*time.Millisecond, "the destination has a backup", to.hasBackup)
		o.loadPlants(t)
		all = append(all, o)
		<-time.After(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		if n > 0 && random.IntN(2) == 0 {
			r.violations = append(r.violations, all[n-1].fence(t)...)
		}
	}
	for _, o := range all[:owners-1] {
		r.violations = append(r.violations, o.fence(t)...)
	}
	copied := all[owners-1].stop(t, time.Duration(random.Int64N(int64(time.Second))))
	r.violations = append(r.violations, compareOwners(t, &r, to.address, all, copied)...)
	return r
}

func (o *owner) signal(s syscall.Signal) {
	_ = syscall.Kill(-o.server.Command.Process.Pid, s) // fails if the server has ended
}

// fence lets the server of a replaced machine go on, which then must end by itself.
func (o *owner) fence(t *testing.T) (violations []error) {
	t.Helper()
	const exitFenced = 74
	select {
	case <-o.server.Ended():
	default:
		o.heal()
		o.signal(syscall.SIGCONT)
	}
	select {
	case <-o.server.Ended():
	case <-time.After(5 * time.Minute):
		violations = append(violations, errors.New("the server that was replaced still runs"))
		o.server.Kill()
	}
	o.end()
	o.clients.Wait()
	if code := o.server.ExitCode(); code != exitFenced {
		violations = append(violations,
			fmt.Errorf("the server that was replaced ended with code %d:\n%s", code, o.server.Log()))
	}
	return violations
}

// compareOwners restores the destination, and compares its plants with those that the servers have acknowledged.
func compareOwners(t *testing.T, r *result, address string, all []*owner, copied time.Time) (violations []error) {
	t.Helper()
	program := all[0].program
	out, err := exec.Command(program, "verify", address).CombinedOutput()
	if err != nil {
		return []error{fmt.Errorf("verify: %w\n%s", err, out)}
	}
	notes := map[string][]string{}
	for _, note := range leftOut.FindAllStringSubmatch(string(out), -1) {
		notes[note[3]] = note
	}
	plants, _, err := restore(t, program, address)
	if err != nil {
		return []error{err}
	}
	violate := func(form string, values ...any) { violations = append(violations, fmt.Errorf(form, values...)) }
	sent := map[int64]bool{}
	for n, o := range all {
		r.plants += len(o.stored)
		var later map[int64]string // with the commits that are left out
		if o.timeline != "" && notes[o.timeline] != nil {
			names, commits, err := restore(t, program, address, "--timeline", o.timeline)
			if err != nil {
				return append(violations, err)
			}
			later = names
			count, _ := strconv.ParseInt(notes[o.timeline][1], 10, 64)
			if after, _ := strconv.ParseInt(notes[o.timeline][2], 10, 64); commits != after+count {
				violate("the timeline ends with commit %d, but: %s", commits, notes[o.timeline][0])
			}
		}
		for id, at := range o.stored {
			_, found := plants[id]
			_, isLater := later[id]
			isLast := n == len(all)-1
			switch {
			case found:
			case o.sync:
				violate("plant %d of owner %d is lost, acknowledged at %v", id, n, at)
			case isLater:
				r.lost++
			case !isLast || at.Before(copied):
				violate("plant %d of owner %d is lost and in no note, acknowledged at %v", id, n, at)
			}
		}
		for id := range o.sent {
			sent[id] = true
		}
	}
	for id, name := range plants {
		if !sent[id] || name != nameOf(id) {
			violate("the restored store has plant %d %q, which nobody sent", id, name)
		}
	}
	return violations
}

// leftOut matches what verify tells about the commits that are not in a restore.
var leftOut = regexp.MustCompile(`(\d+) commits? by .* after commit (\d+) .* not included; --timeline ([0-9a-f]{16})`)

// restore returns the plants of a restore, and the number of its last commit.
func restore(
	t *testing.T, program, address string, flags ...string,
) (plants map[int64]string, commits int64, err error) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "plantstore.db")
	var faults bytes.Buffer
	command := exec.Command(program, append([]string{"restore", address, "--json", "--db", db}, flags...)...)
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("restore %v: %w\n%s", flags, err, &faults)
	}
	var facts struct{ Commits int64 }
	if err := json.Unmarshal(out, &facts); err != nil {
		t.Fatal(err)
	}
	plants, err = rig.Export(t, program, db)
	return plants, facts.Commits, err
}

// place is a destination of several machines, each of which has a route to it.
type place struct {
	address   string // for commands
	hasBackup func() bool
	route     func(t *testing.T, random *rand.Rand) route
}

// route is how a machine reaches a place, unless it is cut.
type route struct {
	address   string
	before    []string // goes before the server's command line
	cut, heal func()
}

func newPlace(t *testing.T, inBucket bool) place {
	t.Helper()
	if inBucket {
		return newBucket(t)
	}
	dir := t.TempDir()
	return place{
		dir,
		func() bool {
			found, _ := filepath.Glob(filepath.Join(dir, "*.db"))
			return len(found) > 0
		},
		func(t *testing.T, _ *rand.Rand) route {
			t.Helper()
			link := filepath.Join(t.TempDir(), "copies")
			heal := func() {
				if err := os.Symlink(dir, link); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
			}
			heal()
			return route{link, nil, func() { _ = os.Remove(link) }, heal}
		},
	}
}

// newBucket starts an S3 server, to which each machine has a proxy.
func newBucket(t *testing.T) place {
	t.Helper()
	s, err := s3test.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	t.Setenv("AWS_ENDPOINT_URL_S3", s.Endpoint)
	address := "s3://" + s3test.Bucket
	return place{
		address,
		func() bool {
			all, err := s.Objects()
			if err != nil {
				t.Fatal(err)
			}
			for name := range all {
				if strings.HasSuffix(name, ".db") {
					return true
				}
			}
			return false
		},
		func(t *testing.T, random *rand.Rand) route {
			t.Helper()
			proxy, err := s3test.NewProxy(t.Context(), s.Address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			cut := func() {
				switch {
				case random.IntN(2) == 0:
					proxy.CutResponses(0)
				case *long && random.IntN(4) == 0:
					proxy.StallAfter(0) // for a minute
				default:
					proxy.CutAfter(0)
				}
			}
			return route{address, []string{"env", "AWS_ENDPOINT_URL_S3=" + proxy.Endpoint}, cut, proxy.Pass}
		},
	}
}
