package failover

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
)

const (
	postgresBin = "/usr/lib/postgresql/15/bin"
	pollEvery   = 100 * time.Millisecond
	healthyMax  = 2 * time.Minute // for a cluster to become healthy, with a new base backup of a node
)

// nodeNames are the names of the nodes of each cluster.
var nodeNames = []string{"a", "b", "c"}

func nodeAddress(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// manager makes one of the nodes the primary, and another one when that node fails.
type manager interface {
	// nodes returns the hosts with PostgreSQL, which are started.
	nodes() []*host
	// isPrimary reports whether a node is the primary according to the manager; false if the manager does not respond.
	isPrimary(h *host) bool
	// canFailOver reports whether the manager could make another node the primary. synchronous has the application names
	// of the synchronous standbys.
	canFailOver(primary *host, synchronous []string) bool
	// switchover makes a synchronous standby the primary, without a failure.
	switchover(primary *host) error
}

// cluster is three hosts with PostgreSQL and their manager.
type cluster struct {
	manager
	t     testing.TB
	flags []string // for the servers that use it
}

// newCluster waits until a cluster is healthy, and creates the database.
func newCluster(t testing.TB, m manager, flags ...string) *cluster {
	t.Helper()
	c := &cluster{manager: m, t: t, flags: flags}
	t.Cleanup(func() {
		if t.Failed() {
			for _, h := range c.nodes() {
				t.Log(h.logTail())
			}
		}
	})
	c.waitHealthy()
	c.execute(c.primary(nil), "CREATE DATABASE plants")
	rig.Within(t, healthyMax, pollEvery, "each node has the database", func() bool {
		return !slices.ContainsFunc(c.nodes(), func(h *host) bool {
			_, err := c.query(h, "plants", "SELECT 1")
			return err != nil
		})
	})
	return c
}

// primary returns the primary; nil if no node but except is the primary.
func (c *cluster) primary(except *host) *host {
	for _, h := range c.nodes() {
		if h != except && c.isPrimary(h) {
			return h
		}
	}
	return nil
}

// others returns all nodes but one.
func (c *cluster) others(except *host) (others []*host) {
	for _, h := range c.nodes() {
		if h != except {
			others = append(others, h)
		}
	}
	return others
}

// url returns the URL that the servers use, with all hosts.
func (c *cluster) url() string { return urlOf(c.nodes()...) }

// urlOf returns the URL of the database on some hosts. The hosts trust each other.
func urlOf(hosts ...*host) string {
	addresses := make([]string, len(hosts))
	for i, h := range hosts {
		addresses[i] = h.address + ":5432"
	}
	return "postgres://postgres@" + strings.Join(addresses, ",") + "/plants?sslmode=disable&require_auth=none"
}

// waitHealthy waits until the cluster has a primary, both standbys replicate from it, and the manager could make one of
// them the primary.
func (c *cluster) waitHealthy() {
	c.t.Helper()
	const sql = `SELECT count(DISTINCT application_name), string_agg(application_name, ',' ORDER BY application_name)
			FILTER (WHERE sync_state IN ('sync', 'quorum'))
		FROM pg_stat_replication WHERE state = 'streaming'`
	rig.Within(c.t, healthyMax, pollEvery, "all nodes replicate from one primary", func() bool {
		primary := c.primary(nil)
		if primary == nil {
			return false
		}
		row, err := c.query(primary, "postgres", sql)
		standbys, synchronous, _ := strings.Cut(row, "|")
		return err == nil && standbys == "2" && synchronous != "" &&
			c.canFailOver(primary, strings.Split(synchronous, ","))
	})
}

// query queries a host's PostgreSQL, which may be unreachable.
func (c *cluster) query(h *host, database, sql string) (string, error) {
	return query(c.t.Context(), "postgres://postgres@"+h.address+":5432/"+database, sql)
}

// query returns psql's unaligned output.
func query(ctx context.Context, url, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "psql", "-XAtqc", sql, url).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// execute is query that fails the test on an error.
func (c *cluster) execute(h *host, sql string) string {
	c.t.Helper()
	out, err := c.query(h, "postgres", sql)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}
