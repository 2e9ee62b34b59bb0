package failover

import (
	"slices"
	"strings"
	"testing"

	"plantstore/faults/rig"
)

// autoFailoverFiles are what pg_auto_failover needs, and the packages they are in.
var autoFailoverFiles = map[string]string{"/usr/bin/pg_autoctl": "pg-auto-failover-cli", "/usr/lib/postgresql/15/lib/pgautofailover.so": "postgresql-15-auto-failover"}

// monitorSettings have the monitor give a primary up after some 6 s, and have a
// standby take over 5 s after it was chosen. By default these are 20 s and 30 s.
const monitorSettings = `
pgautofailover.health_check_period = 1000
pgautofailover.health_check_timeout = 1000
pgautofailover.health_check_max_retries = 2
pgautofailover.health_check_retry_delay = 500
pgautofailover.node_considered_unhealthy_timeout = 5000
pgautofailover.primary_demote_timeout = 5000
pgautofailover.startup_grace_period = 5000
`

// nodeSettings come after those of pg_auto_failover. The first copies of a
// database wait for a checkpoint, which is made at leisure by default.
const nodeSettings = `
shared_buffers = 32MB
wal_sender_timeout = 10s
wal_receiver_timeout = 10s
checkpoint_completion_target = 0
`

// autoFailover is pg_auto_failover: its monitor, and three hosts.
type autoFailover struct {
	t       testing.TB
	monitor *host
	hosts   []*host
}

// newAutoFailover starts a monitor, a node that becomes the primary, and two
// that copy it.
func newAutoFailover(t testing.TB) *autoFailover {
	t.Helper()
	f := &autoFailover{t: t, monitor: newHost(t, "monitor", nodeAddress(len(nodeNames)))}
	f.monitor.command = f.pgAutoctl(f.monitor, "create", "monitor", "--run")
	f.monitor.initdb(monitorSettings)
	f.monitor.start()
	rig.Within(t, wholeMax, pollEvery, "the monitor answers", func() bool {
		_, err := f.nodesIn("true")
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
		rig.Within(t, wholeMax, pollEvery, "the node is known", func() bool {
			names, err := f.nodesIn("reportedstate <> 'init'")
			return err == nil && slices.Contains(names, name)
		})
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(f.monitor.tail())
		}
	})
	return f
}

// pgAutoctl is the command of a host. Who may connect is in what initdb makes,
// which the other nodes copy.
func (f *autoFailover) pgAutoctl(h *host, verbs ...string) []string {
	return append(append([]string{"pg_autoctl"}, verbs...), "--pgdata", h.data(), "--pgctl", postgresBin+"/pg_ctl", "--pgport", "5432", "--hostname", h.address, "--skip-pg-hba", "--no-ssl")
}

// url is that of the monitor's database.
func (f *autoFailover) url() string {
	return "postgres://autoctl_node@" + f.monitor.address + ":5432/pg_auto_failover"
}

// nodesIn are the names of the nodes of which the monitor has it that a condition
// holds (https://pg-auto-failover.readthedocs.io/en/main/failover-state-machine.html).
func (f *autoFailover) nodesIn(condition string) ([]string, error) {
	names, err := ask(f.t.Context(), f.url(), "SELECT nodename FROM pgautofailover.node WHERE "+condition)
	return strings.Fields(names), err
}

// nodes implements manager.
func (f *autoFailover) nodes() []*host { return f.hosts }

// leads implements manager.
func (f *autoFailover) leads(h *host) bool {
	const leading = "('wait_primary', 'primary', 'join_primary', 'apply_settings')"
	names, err := f.nodesIn("reportedstate IN " + leading + " AND goalstate IN " + leading)
	return err == nil && slices.Contains(names, h.name)
}

// ready implements manager: a standby may take over if both can say how far they
// have come.
func (f *autoFailover) ready(_ *host, synchronous []string) bool {
	names, err := f.nodesIn("reportedstate = goalstate AND goalstate IN ('primary', 'secondary') AND health = 1")
	return err == nil && len(names) == len(f.hosts) && len(synchronous) == len(f.hosts)-1
}

// switchover implements manager.
func (f *autoFailover) switchover(primary *host) error {
	return primary.beside("pg_autoctl", "perform", "switchover", "--pgdata", primary.data())
}
