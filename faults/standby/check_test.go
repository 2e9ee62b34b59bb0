package standby

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// result is what a cluster has shown.
type result struct {
	clusters, rounds, failovers      int
	plants                           int // that were acknowledged
	lost                             int // of these, in no store
	aside, inTimelines               int // of these, only in stores that were set aside; only in other timelines
	created                          int // created again after their acknowledgement
	late                             int // acknowledgements of requests that were sent while the other server was ready
	setAside                         int // stores
	overlaps                         int // times in which both servers were ready
	longest                          time.Duration
	exits                            int // of servers by themselves
	kills, firsts, stops, promotions []time.Duration
}

func (r *result) add(o result) {
	r.clusters++
	r.rounds += o.rounds
	r.failovers += o.failovers
	r.plants += o.plants
	r.lost += o.lost
	r.aside += o.aside
	r.inTimelines += o.inTimelines
	r.created += o.created
	r.late += o.late
	r.setAside += o.setAside
	r.overlaps += o.overlaps
	r.longest = max(r.longest, o.longest)
	r.exits += o.exits
	r.kills = append(r.kills, o.kills...)
	r.firsts = append(r.firsts, o.firsts...)
	r.stops = append(r.stops, o.stops...)
	r.promotions = append(r.promotions, o.promotions...)
}

// log logs the result.
func (r *result) log(t *testing.T, s setup) {
	t.Helper()
	t.Logf("%s: %d failovers in %d rounds of %d clusters; %d plants acknowledged, %d lost, "+
		"%d only in %d stores set aside, %d only in other timelines, %d created again; "+
		"%d acknowledged while the other server was ready; both ready %d times, at most %v; %d exits",
		s, r.failovers, r.rounds, r.clusters, r.plants, r.lost, r.aside, r.setAside, r.inTimelines, r.created, r.late,
		r.overlaps, r.longest.Round(time.Millisecond), r.exits)
	for _, one := range []struct {
		name  string
		times []time.Duration
	}{
		{"kill to ready", r.kills},
		{"kill to an acknowledgement", r.firsts},
		{"stop to ready", r.stops},
		{"promote", r.promotions},
	} {
		if len(one.times) > 0 {
			t.Logf("%s: p50 %v, p99 %v of %d", one.name, quantile(one.times, 0.5), quantile(one.times, 0.99), len(one.times))
		}
	}
}

func quantile(times []time.Duration, q float64) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[int(q*float64(len(times)-1)+0.5)].Round(time.Millisecond)
}

// check compares the store of the owner, and with --backup-sync the destination, with what the clients know.
func (c *cluster) check(owner, _ *machine) {
	c.t.Helper()
	acknowledged := c.acknowledged()
	plants, err := rig.Export(c.t, c.program, owner.db)
	if err != nil {
		c.t.Fatal(err)
	}
	c.compare("the owner's store", plants, acknowledged)
	if c.sync {
		c.compare("a restore", c.restored(), acknowledged)
	}
}

// compare compares plants with what the clients know. Without --backup-sync, plants may be in stores that were set
// aside.
func (c *cluster) compare(name string, plants map[int64]string, acknowledged map[int64]time.Time) {
	c.t.Helper()
	maps.DeleteFunc(acknowledged, func(id int64, _ time.Time) bool { return plants[id] == nameOf(id) })
	if !c.sync && len(acknowledged) > 0 {
		c.findElsewhere(acknowledged)
	}
	c.lost = max(c.lost, len(acknowledged))
	for id, at := range acknowledged {
		c.violate("%s lacks plant %d, acknowledged at %v", name, id, at)
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for id, text := range plants {
		if !c.sent[id] || text != nameOf(id) {
			c.violations = append(c.violations, errors.New(name+" has a plant that nobody sent: "+text))
		}
	}
}

// leftOut matches the notes of verify about the commits that are in no restore of the newest state.
var leftOut = regexp.MustCompile(`not included; --timeline ([0-9a-f]{16})`)

// findElsewhere removes the plants that are in stores which were set aside, or in other timelines of the destination:
// the owner acknowledged them when another server was about to take over.
func (c *cluster) findElsewhere(acknowledged map[int64]time.Time) {
	c.t.Helper()
	remove := func(plants map[int64]string) (count int) {
		before := len(acknowledged)
		maps.DeleteFunc(acknowledged, func(id int64, _ time.Time) bool { return plants[id] == nameOf(id) })
		return before - len(acknowledged)
	}
	c.aside, c.inTimelines = 0, 0
	for _, file := range c.setAsideFiles() {
		plants, err := rig.Export(c.t, c.program, file)
		if err != nil {
			c.violate("a store that was set aside: %w", err)
			continue
		}
		c.aside += remove(plants)
	}
	if len(acknowledged) == 0 {
		return
	}
	out, err := c.command("verify", c.to)
	if err != nil {
		c.violate("%w", err)
	}
	for _, note := range leftOut.FindAllStringSubmatch(out, -1) {
		c.inTimelines += remove(c.restored("--timeline", note[1]))
	}
}

func (c *cluster) setAsideFiles() (all []string) {
	for _, m := range c.machines {
		found, _ := filepath.Glob(m.db + "-set-aside-*")
		all = append(all, slices.DeleteFunc(found, func(file string) bool {
			return !strings.HasSuffix(file, "Z")
		})...)
	}
	return all
}

// restored returns the plants of a restore of the destination.
func (c *cluster) restored(flags ...string) map[int64]string {
	c.t.Helper()
	db := filepath.Join(c.t.TempDir(), "plantstore.db")
	if _, err := c.command(append([]string{"restore", c.to, "--db", db}, flags...)...); err != nil {
		c.violate("%w", err)
		return nil
	}
	plants, err := rig.Export(c.t, c.program, db)
	if err != nil {
		c.t.Fatal(err)
	}
	return plants
}

// command runs a command of the program with a link that has no faults.
func (c *cluster) command(args ...string) (output string, err error) {
	args = slices.Concat(c.direct, []string{c.program}, args)
	out, err := exec.CommandContext(c.t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(args[len(c.direct)+1:], " "), err, out)
	}
	return string(out), err
}

// finish ends the load, compares both stores and the destination, and returns the result.
func (c *cluster) finish() result {
	c.t.Helper()
	c.stopLoad()
	owner, standby := c.settle()
	c.check(owner, standby)
	plants, err := rig.Export(c.t, c.program, owner.db)
	if err != nil {
		c.t.Fatal(err)
	}
	c.within("the standby has the plants of the owner", func() bool {
		copied, err := rig.Export(c.t, c.program, standby.db)
		if err != nil {
			c.t.Fatal(err)
		}
		return maps.Equal(copied, plants)
	})
	standby.stop()
	owner.stop()
	if _, err := c.command("verify", c.to); err != nil {
		c.violate("%w", err)
	}
	if !maps.Equal(c.restored(), plants) {
		c.violate("a restore has other plants than the owner's store")
	}
	r := c.result
	r.failovers = c.changes()
	r.plants = len(c.acknowledged())
	r.setAside = len(c.setAsideFiles())
	r.created = c.doubled
	r.overlaps, r.longest = c.bothReady()
	for _, a := range c.all {
		if c.wasReady(1-a.machine, a.sent) {
			r.late++
		}
	}
	return r
}
