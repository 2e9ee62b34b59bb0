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
	wholeMax    = 2 * time.Minute // for a cluster to be whole, with a node that is copied anew
)

// nodeNames are the nodes of every cluster.
var nodeNames = []string{"a", "b", "c"}

func nodeAddress(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// manager makes one of the nodes the primary, and another one when that fails.
type manager interface {
	// nodes are the hosts with PostgreSQL, which are started.
	nodes() []*host
	// leads reports whether a node is the primary as far as the manager knows;
	// false if it cannot be asked.
	leads(h *host) bool
	// ready reports whether the manager could have another node take over, if
	// these are the application names of the synchronous standbys.
	ready(primary *host, synchronous []string) bool
	// switchover makes a synchronous standby the primary, in order.
	switchover(primary *host) error
}

// cluster is three hosts with PostgreSQL, and their manager.
type cluster struct {
	manager
	t     testing.TB
	flags []string // of the servers that use it
}

// newCluster waits until a cluster is whole, and makes the database in it.
func newCluster(t testing.TB, m manager, flags ...string) *cluster {
	t.Helper()
	c := &cluster{manager: m, t: t, flags: flags}
	t.Cleanup(func() {
		if t.Failed() {
			for _, h := range c.nodes() {
				t.Log(h.tail())
			}
		}
	})
	c.whole()
	c.sql(c.leader(nil), "CREATE DATABASE plants")
	rig.Within(t, wholeMax, pollEvery, "every node has the database", func() bool {
		return !slices.ContainsFunc(c.nodes(), func(h *host) bool {
			_, err := c.ask(h, "plants", "SELECT 1")
			return err != nil
		})
	})
	return c
}

// leader is the node that is the primary and is not another; nil if there is
// none.
func (c *cluster) leader(not *host) *host {
	for _, h := range c.nodes() {
		if h != not && c.leads(h) {
			return h
		}
	}
	return nil
}

// others are all nodes but one.
func (c *cluster) others(than *host) (others []*host) {
	for _, h := range c.nodes() {
		if h != than {
			others = append(others, h)
		}
	}
	return others
}

// url is what a server is given: all hosts.
func (c *cluster) url() string { return urlOf(c.nodes()...) }

// urlOf names the database on some hosts.
func urlOf(hosts ...*host) string {
	addresses := make([]string, len(hosts))
	for i, h := range hosts {
		addresses[i] = h.address + ":5432"
	}
	return "postgres://postgres@" + strings.Join(addresses, ",") + "/plants?sslmode=disable&require_auth=none" // they trust each other
}

// whole waits until there is a primary, the other nodes follow it, and the
// manager could have one of them take over.
func (c *cluster) whole() {
	c.t.Helper()
	const sql = `SELECT count(DISTINCT application_name), string_agg(application_name, ',' ORDER BY application_name) FILTER (WHERE sync_state IN ('sync', 'quorum'))
		FROM pg_stat_replication WHERE state = 'streaming'`
	rig.Within(c.t, wholeMax, pollEvery, "all nodes follow one primary", func() bool {
		primary := c.leader(nil)
		if primary == nil {
			return false
		}
		state, err := c.ask(primary, "postgres", sql)
		following, synchronous, _ := strings.Cut(state, "|")
		return err == nil && following == "2" && synchronous != "" && c.ready(primary, strings.Split(synchronous, ","))
	})
}

// ask asks the PostgreSQL of a host, which may not answer at all.
func (c *cluster) ask(h *host, database, sql string) (string, error) {
	return ask(c.t.Context(), "postgres://postgres@"+h.address+":5432/"+database, sql)
}

func ask(ctx context.Context, url, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "psql", "-XAtqc", sql, url).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (c *cluster) sql(h *host, sql string) string {
	c.t.Helper()
	out, err := c.ask(h, "postgres", sql)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}
