package failover

import (
	"slices"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// requireStandby is what servers on pg_auto_failover need: a primary that has just
// taken over waits for no standby.
const requireStandby = "--require-sync-standby"

// TestAutoFailover tries kinds on a cluster with pg_auto_failover.
func TestAutoFailover(t *testing.T) {
	needHosts(t, autoFailoverFiles)
	f := newAutoFailover(t)
	tryKinds(t, newCluster(t, f, requireStandby), withKinds(map[string]kind{
		"standby": (*trial).loseStandby,
		"two":     func(r *trial) time.Duration { return r.loseTwo(f) },
		"monitor": func(r *trial) time.Duration { return r.loseMonitor(f) },
		"alone": func(r *trial) time.Duration {
			stored, stood := r.leaveAlone(f)
			if stored > 0 {
				t.Errorf("%d plants were acknowledged by a primary alone", stored)
			}
			return stood
		},
	}), 2)
}

// TestAutoFailoverControl has a primary alone acknowledge plants, which it does
// to servers that do not require a standby.
func TestAutoFailoverControl(t *testing.T) {
	needHosts(t, autoFailoverFiles)
	f := newAutoFailover(t)
	c := newCluster(t, f)
	r := &trial{c, newLoad(t, rig.Build(t), c, rig.Seed(t, *seed))}
	stored, _ := r.leaveAlone(f)
	t.Logf("a primary alone acknowledged %d plants", stored)
	if stored == 0 {
		t.Error("a primary alone acknowledged nothing")
	}
}

// loseStandby cuts one standby off: writes go on, before and after it is back.
func (r *trial) loseStandby() time.Duration {
	r.t.Helper()
	begun := time.Now()
	away := r.others(r.leader(nil))[0]
	away.cut()
	r.goesOnFor(awayTime)
	away.heal()
	r.whole()
	r.goesOn(r.t, time.Now())
	return r.standstill(begun)
}

// loseTwo cuts one standby off, and kills the primary: that the other standby has
// everything is not known until the first is back, so that it does not take over.
func (r *trial) loseTwo(f *autoFailover) time.Duration {
	r.t.Helper()
	old := r.leader(nil)
	away := r.others(old)[0]
	away.cut()
	rig.Within(r.t, wholeMax, pollEvery, "the monitor misses the standby", func() bool {
		names, err := f.nodesIn("health = 0")
		return err == nil && slices.Equal(names, []string{away.name})
	})
	old.kill()
	r.standsStill("with one node of three")
	back := time.Now()
	away.heal()
	r.goesOn(r.t, back)
	old.start()
	return r.standstill(back)
}

// awayTime is longer than any wait after which a node gives up one that it does
// not hear of.
const awayTime = 25 * time.Second

// loseMonitor takes the monitor away: writes go on, before and after it is back.
func (r *trial) loseMonitor(f *autoFailover) time.Duration {
	r.t.Helper()
	begun := time.Now()
	f.monitor.kill()
	r.goesOnFor(awayTime)
	f.monitor.start()
	r.whole()
	r.goesOn(r.t, time.Now())
	return r.standstill(begun)
}

// goesOnFor waits for some time, and until a plant is stored after it.
func (r *trial) goesOnFor(d time.Duration) {
	r.t.Helper()
	begun := time.Now()
	rig.Within(r.t, wholeMax, pollEvery, "the time has passed", func() bool { return time.Since(begun) > d })
	r.goesOn(r.t, time.Now())
}

// leaveAlone kills the primary, cuts one standby off when the other is about to
// take over, and brings both back when each client has tried the new primary
// twice. It returns how many plants were acknowledged in between, and how long
// writes stood still afterwards.
func (r *trial) leaveAlone(f *autoFailover) (stored int, stood time.Duration) {
	r.t.Helper()
	old := r.leader(nil)
	old.kill()
	var next []string
	rig.Within(r.t, wholeMax, pollEvery, "a standby is about to take over", func() (so bool) {
		next, _ = f.nodesIn("goalstate IN ('prepare_promotion', 'stop_replication', 'wait_primary')")
		return len(next) == 1
	})
	i := slices.IndexFunc(r.nodes(), func(h *host) bool { return h != old && h.name != next[0] })
	other := r.nodes()[i]
	other.cut()
	rig.Within(r.t, wholeMax, pollEvery, "another node is the primary", func() bool { return r.leader(old) != nil })
	alone := time.Now()
	rig.Within(r.t, wholeMax, pollEvery, "every client has tried", func() bool { return r.triedAfter(alone) })
	stored = r.storedAfter(alone)
	back := time.Now()
	other.heal()
	old.start()
	r.goesOn(r.t, back)
	return stored, r.standstill(back)
}
