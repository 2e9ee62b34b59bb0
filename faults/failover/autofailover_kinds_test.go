package failover

import (
	"slices"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// requireStandby is the flag that servers on pg_auto_failover need: a new primary does not wait for a standby.
const requireStandby = "--require-sync-standby"

// TestAutoFailover runs kinds on a cluster with pg_auto_failover.
func TestAutoFailover(t *testing.T) {
	requireHosts(t, autoFailoverFiles)
	f := newAutoFailover(t)
	runKinds(t, newCluster(t, f, requireStandby), withKinds(map[string]kind{
		"standby": (*testbed).cutStandby,
		"two":     func(b *testbed) time.Duration { return b.cutStandbyAndKillPrimary(f) },
		"monitor": func(b *testbed) time.Duration { return b.killMonitor(f) },
		"alone": func(b *testbed) time.Duration {
			stored, downtime := b.promoteAlone(f)
			if stored > 0 {
				t.Errorf("a primary without a standby acknowledged %d plants", stored)
			}
			return downtime
		},
	}), 2)
}

// TestAutoFailoverControl shows that the harness detects plants that a primary without a standby acknowledges: the
// servers do not require a standby.
func TestAutoFailoverControl(t *testing.T) {
	requireHosts(t, autoFailoverFiles)
	f := newAutoFailover(t)
	c := newCluster(t, f)
	b := &testbed{c, newLoad(t, rig.Build(t), c, rig.Seed(t, *seed))}
	stored, _ := b.promoteAlone(f)
	t.Logf("a primary without a standby acknowledged %d plants", stored)
	if stored == 0 {
		t.Error("a primary without a standby acknowledged no plants, want some from servers that do not require one")
	}
}

// cutStandby disconnects one standby. Writes must continue without it, and after it is connected again.
func (b *testbed) cutStandby() time.Duration {
	b.t.Helper()
	started := time.Now()
	standby := b.others(b.primary(nil))[0]
	standby.cut()
	b.checkWritesFor(cutTime)
	standby.connect()
	b.waitHealthy()
	b.waitStored(b.t, time.Now())
	return b.downtime(started)
}

// cutStandbyAndKillPrimary disconnects one standby and kills the primary. The other standby must not become the primary
// before the first one is back, because the monitor does not know whether it has all plants.
func (b *testbed) cutStandbyAndKillPrimary(f *autoFailover) time.Duration {
	b.t.Helper()
	old := b.primary(nil)
	standby := b.others(old)[0]
	standby.cut()
	rig.Within(b.t, healthyMax, pollEvery, "the monitor reports the standby as unhealthy", func() bool {
		names, err := f.nodesWhere("health = 0")
		return err == nil && slices.Equal(names, []string{standby.name})
	})
	old.kill()
	b.checkNoWrites("with one node of three")
	connected := time.Now()
	standby.connect()
	b.waitStored(b.t, connected)
	old.start()
	return b.downtime(connected)
}

// cutTime is longer than all timeouts after which a node or the monitor considers another node as failed.
const cutTime = 25 * time.Second

// killMonitor kills the monitor. Writes must continue without it, and after it has started again.
func (b *testbed) killMonitor(f *autoFailover) time.Duration {
	b.t.Helper()
	started := time.Now()
	f.monitor.kill()
	b.checkWritesFor(cutTime)
	f.monitor.start()
	b.waitHealthy()
	b.waitStored(b.t, time.Now())
	return b.downtime(started)
}

// checkWritesFor waits for d, then until a new plant is stored.
func (b *testbed) checkWritesFor(d time.Duration) {
	b.t.Helper()
	started := time.Now()
	rig.Within(b.t, healthyMax, pollEvery, "the time has passed", func() bool { return time.Since(started) > d })
	b.waitStored(b.t, time.Now())
}

// promoteAlone kills the primary, and disconnects one standby when the monitor has chosen the other as the new primary.
// It connects both again when each client has sent two requests after the failover. It returns the number of plants
// that the new primary acknowledged without a standby, and the downtime afterwards.
func (b *testbed) promoteAlone(f *autoFailover) (stored int, downtime time.Duration) {
	b.t.Helper()
	old := b.primary(nil)
	old.kill()
	var chosen []string
	rig.Within(b.t, healthyMax, pollEvery, "the monitor has chosen a new primary", func() bool {
		chosen, _ = f.nodesWhere("goalstate IN ('prepare_promotion', 'stop_replication', 'wait_primary')")
		return len(chosen) == 1
	})
	i := slices.IndexFunc(b.nodes(), func(h *host) bool { return h != old && h.name != chosen[0] })
	standby := b.nodes()[i]
	standby.cut()
	rig.Within(b.t, healthyMax, pollEvery, "another node is the primary", func() bool { return b.primary(old) != nil })
	promoted := time.Now()
	rig.Within(b.t, healthyMax, pollEvery, "each client has sent two requests", func() bool {
		return b.triedSince(promoted)
	})
	stored = b.storedSince(promoted)
	connected := time.Now()
	standby.connect()
	old.start()
	b.waitStored(b.t, connected)
	return stored, b.downtime(connected)
}
