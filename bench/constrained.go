package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const phaseConstrained = "constrained"

// constrainedMemory is the memory limit of the phase constrained, in bytes.
const constrainedMemory = 256 << 20

// constrained compares Plant Store with the floor, each with GOMAXPROCS=1 and in a cgroup with a memory limit: with an
// empty store and with the largest one.
func (b *bench) constrained(ctx context.Context) error {
	group, err := newCgroup(constrainedMemory)
	if err != nil {
		b.log.Warn("skipped the phase constrained: no cgroup can be created; run it as root", "error", err)
		return nil
	}
	group.remove()
	store, err := b.store(ctx, orderRandom, slices.Max(b.rows))
	if err != nil {
		return err
	}
	runs := []loadSpec{{contender: floorName}, {contender: productName}, {contender: productName, store: store}}
	for round := b.round; round < b.round+b.phaseRounds(); round++ {
		for _, connections := range b.connections {
			for i := range runs {
				spec := runs[(round+i)%len(runs)]
				spec.phase, spec.set, spec.round, spec.connections = phaseConstrained, setShared, round, connections
				spec.order, spec.time, spec.constrained = orderRandom, b.duration, true
				if err := b.load(ctx, spec); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// constrainedTable has the runs with one processor and little memory.
func (r *results) constrainedTable() string {
	all := r.phase(phaseConstrained)
	if len(all) == 0 {
		return notMeasured
	}
	t := &table{}
	t.row("contender", "plants before", "connections", "requests a second", "÷ floor", "p50 ms", "p99 ms",
		"server MiB")
	for _, connections := range all.distinct(func(l loadRun) int64 { return l.Connections }) {
		of := func(contender string, before int64) loads {
			return all.where(func(l loadRun) bool {
				return l.Contender == contender && l.Before == before && l.Connections == connections
			})
		}
		floor := of(floorName, 0)
		for _, contender := range []string{floorName, productName} {
			for _, before := range all.distinct(func(l loadRun) int64 { return l.Before }) {
				runs := of(contender, before)
				if len(runs) == 0 {
					continue
				}
				t.row(contenderNamed(contender).title, whole(float64(before)), fmt.Sprint(connections),
					runs.spread(rate).text(whole), spreadOf(runs.ratios(floor, rate)).text(twoDecimals),
					runs.spread(p50).medianText(millis), runs.spread(p99).text(millis), runs.spread(peak).medianText(mebibytes))
			}
		}
	}
	return t.String()
}

// cgroup is the directory of a cgroup that limits the memory of the processes in it.
type cgroup string

// newCgroup creates a cgroup of version 2 or 1. The caller removes it after its processes have exited.
func newCgroup(memory int64) (_ cgroup, err error) {
	root, limit, err := memoryController()
	if err != nil {
		return "", err
	}
	path, err := os.MkdirTemp(root, "plantstore-bench-")
	if err != nil {
		return "", err
	}
	g := cgroup(path)
	if err := os.WriteFile(filepath.Join(path, limit), fmt.Append(nil, memory), 0); err != nil { // the file exists
		g.remove()
		return "", fmt.Errorf("limit memory: %w", err)
	}
	return g, nil
}

// memoryController returns the directory of the hierarchy that has the memory controller, and the name of the file with
// the limit (https://docs.kernel.org/admin-guide/cgroup-v2.html,
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html).
func memoryController() (root, limit string, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch path := fields[1]; fields[2] {
		case "cgroup2":
			if controllers, err := os.ReadFile(filepath.Join(path, "cgroup.subtree_control")); err == nil &&
				slices.Contains(strings.Fields(string(controllers)), "memory") {
				return path, "memory.max", nil
			}
		case "cgroup":
			if slices.Contains(strings.Split(fields[3], ","), "memory") {
				return path, "memory.limit_in_bytes", nil
			}
		}
	}
	return "", "", errors.New("no cgroup hierarchy with the memory controller is mounted")
}

// command returns the command line that starts a program in the cgroup.
func (g cgroup) command(args ...string) []string {
	return append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(string(g), "cgroup.procs")}, args...)
}

// remove removes the cgroup. The kernel refuses it for a moment after the last process has exited.
func (g cgroup) remove() {
	for range 100 {
		if err := os.Remove(string(g)); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
