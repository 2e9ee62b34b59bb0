package failover

import (
	"slices"
	"strings"
	"testing"

	"plantstore/faults/rig"
)

// autoFailoverFiles are the files that pg_auto_failover needs, with their packages.
var autoFailoverFiles = map[string]string{
	"/usr/bin/pg_autoctl":                          "pg-auto-failover-cli",
	"/usr/lib/postgresql/15/lib/pgautofailover.so": "postgresql-15-auto-failover",
}

// monitorSettings make the monitor consider a primary as failed after about 6 s, and promote a standby 5 s after the
// decision. The defaults are 20 s and 30 s.
const monitorSettings = `
pgautofailover.health_check_period = 1000
pgautofailover.health_check_timeout = 1000
pgautofailover.health_check_max_retries = 2
pgautofailover.health_check_retry_delay = 500
pgautofailover.node_considered_unhealthy_timeout = 5000
pgautofailover.primary_demote_timeout = 5000
pgautofailover.startup_grace_period = 5000
`

// nodeSettings override those of pg_auto_failover. A base backup waits for a checkpoint; the target 0 makes it fast.
const nodeSettings = `
shared_buffers = 32MB
wal_sender_timeout = 10s
wal_receiver_timeout = 10s
checkpoint_completion_target = 0
`

// autoFailover is a pg_auto_failover monitor with three nodes.
type autoFailover struct {
	t       testing.TB
	monitor *host
	hosts   []*host
}

// newAutoFailover starts a monitor, then the primary, then two standbys.
func newAutoFailover(t testing.TB) *autoFailover {
	t.Helper()
	f := &autoFailover{t: t, monitor: newHost(t, "monitor", nodeAddress(len(nodeNames)))}
	f.monitor.command = f.pgAutoctl(f.monitor, "create", "monitor", "--run")
	f.monitor.initdb(monitorSettings)
	f.monitor.start()
	rig.Within(t, healthyMax, pollEvery, "the monitor accepts queries", func() bool {
		_, err := f.nodesWhere("true")
		return err == nil
	})
	for i, name := range nodeNames {
		h := newHost(t, name, nodeAddress(i))
		h.command = f.pgAutoctl(h, "create", "postgres", "--run", "--name", name, "--monitor", f.url())
		f.hosts = append(f.hosts, h)
		if i == 0 {
			h.initdb(nodeSettings)
		}
		h.start()
		rig.Within(t, healthyMax, pollEvery, "the monitor has registered the node", func() bool {
			names, err := f.nodesWhere("reportedstate <> 'init'")
			return err == nil && slices.Contains(names, name)
		})
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(f.monitor.logTail())
		}
	})
	return f
}

// pgAutoctl returns the command of a host. --skip-pg-hba leaves the access rules to initdb; the standbys copy them.
func (f *autoFailover) pgAutoctl(h *host, verbs ...string) []string {
	return append(append([]string{"pg_autoctl"}, verbs...),
		"--pgdata", h.dataDir(), "--pgctl", postgresBin+"/pg_ctl", "--pgport", "5432", "--hostname", h.address,
		"--skip-pg-hba", "--no-ssl")
}

// url returns the URL of the monitor's database.
func (f *autoFailover) url() string {
	return "postgres://autoctl_node@" + f.monitor.address + ":5432/pg_auto_failover"
}

// nodesWhere returns the names of the nodes for which a condition is true in the monitor's table of nodes
// (https://pg-auto-failover.readthedocs.io/en/main/failover-state-machine.html).
func (f *autoFailover) nodesWhere(condition string) ([]string, error) {
	names, err := query(f.t.Context(), f.url(), "SELECT nodename FROM pgautofailover.node WHERE "+condition)
	return strings.Fields(names), err
}

// nodes implements manager.
func (f *autoFailover) nodes() []*host { return f.hosts }

// isPrimary implements manager.
func (f *autoFailover) isPrimary(h *host) bool {
	const states = "('wait_primary', 'primary', 'join_primary', 'apply_settings')"
	names, err := f.nodesWhere("reportedstate IN " + states + " AND goalstate IN " + states)
	return err == nil && slices.Contains(names, h.name)
}

// canFailOver implements manager. A standby can become the primary if both standbys can report their position in the
// WAL.
func (f *autoFailover) canFailOver(_ *host, synchronous []string) bool {
	names, err := f.nodesWhere("reportedstate = goalstate AND goalstate IN ('primary', 'secondary') AND health = 1")
	return err == nil && len(names) == len(f.hosts) && len(synchronous) == len(f.hosts)-1
}

// switchover implements manager.
func (f *autoFailover) switchover(primary *host) error {
	return primary.runOutside("pg_autoctl", "perform", "switchover", "--pgdata", primary.dataDir())
}
