// Package failover fails over a PostgreSQL cluster under load. It checks that each acknowledged plant is stored once
// and unchanged, and measures the time without writes.
//
// A cluster is three hosts with PostgreSQL and their manager: Patroni in synchronous strict mode with etcd, or
// pg_auto_failover with a monitor on a host of its own. A host is a network namespace on a bridge, and a process
// namespace. Two servers use the names of all three hosts. The kinds of failures:
//
//	kill        all processes of the primary's host are killed, and start again
//	freeze      all processes of the primary's host are stopped until another node is the primary
//	cut         the primary's host is disconnected until another node is the primary
//	switchover  an operator makes a standby the primary
//	standbys    both standbys are disconnected: no plant may be acknowledged
//
// Kinds for Patroni only:
//
//	etcd        etcd is killed: the primary steps down, and no plant may be acknowledged
//
// Kinds for pg_auto_failover only:
//
//	standby     one of two standbys is disconnected: writes continue
//	two         a standby is disconnected, then the primary is killed: no plant may be
//	            acknowledged until the standby is back
//	monitor     the monitor is killed: writes continue
//	alone       the primary is killed, and one standby is disconnected when the other
//	            becomes the primary: that one may not acknowledge a plant alone
//
// The short form runs kill and switchover with both managers, and the controls:
//
//	go test -v ./failover
//	go test -v -timeout 0 ./failover -args -long
//	go test -v ./failover -run TestPatroni -args -kinds cut,cut,etcd
//
// It needs root and Debian's packages patroni, python3-etcd, etcd-server, pg-auto-failover-cli,
// postgresql-15-auto-failover and postgresql-15.
package failover

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	long = flag.Bool("long", false, "run all kinds, each several times")
	only = flag.String("kinds", "", "run these `kinds`, separated by commas; empty: the kinds of the form")
	seed = flag.Uint64("seed", 0, "`seed` of the plants and of the order of the kinds; 0: random")
)

// downtimeMax is the longest allowed time without writes.
const downtimeMax = 30 * time.Second

// kind causes one failure of a cluster and repairs it, so that the cluster becomes healthy by itself. It returns the
// longest time without writes.
type kind func(*testbed) time.Duration

// withKinds returns the kinds for all clusters, and the given ones.
func withKinds(more map[string]kind) map[string]kind {
	kinds := map[string]kind{
		"kill":       func(b *testbed) time.Duration { return b.failPrimary((*host).kill, (*host).start) },
		"freeze":     func(b *testbed) time.Duration { return b.failPrimary((*host).freeze, (*host).thaw) },
		"cut":        func(b *testbed) time.Duration { return b.failPrimary((*host).cut, (*host).connect) },
		"switchover": (*testbed).switchPrimary,
		"standbys":   (*testbed).cutStandbys,
	}
	maps.Copy(kinds, more)
	return kinds
}

// testbed is a cluster under load.
type testbed struct {
	*cluster
	*load
}

// runKinds runs the selected kinds one after the other, and checks the plants after each. The long form runs each kind
// several times.
func runKinds(t *testing.T, c *cluster, kinds map[string]kind, times int) {
	t.Helper()
	program := rig.Build(t)
	seedUsed := rig.Seed(t, *seed)
	b := &testbed{c, newLoad(t, program, c, seedUsed)}
	var downtimes []time.Duration
	for i, name := range selectKinds(seedUsed, kinds, times) {
		run, known := kinds[name]
		if !known {
			t.Fatalf("-kinds: this cluster has no kind %q", name)
		}
		started := time.Now()
		b.resetAttempts()
		downtime := run(b)
		b.waitHealthy()
		b.waitStored(t, time.Now())
		n := b.check(t, program, b.primary(nil))
		t.Logf("failover %d, %s: no writes for %.1f s; healthy after %.1f s; checked %d acknowledged plants",
			i+1, name, downtime.Seconds(), time.Since(started).Seconds(), n)
		if downtime > downtimeMax {
			t.Errorf("no writes for %s, want at most %s", downtime, downtimeMax)
		}
		downtimes = append(downtimes, downtime)
	}
	slices.Sort(downtimes)
	t.Logf("longest time without writes: %.1f s; median: %.1f s",
		downtimes[len(downtimes)-1].Seconds(), downtimes[len(downtimes)/2].Seconds())
}

// selectKinds returns the names of the kinds to run, in their order.
func selectKinds(seed uint64, kinds map[string]kind, times int) (names []string) {
	switch {
	case *only != "":
		return strings.Split(*only, ",")
	case !*long:
		return []string{"kill", "switchover"}
	}
	for name := range kinds {
		names = append(names, slices.Repeat([]string{name}, times)...)
	}
	slices.Sort(names)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// failPrimary injects a failure into the primary, waits until another node is the primary and stores plants, and
// repairs the old primary.
func (b *testbed) failPrimary(inject, repair func(*host)) time.Duration {
	b.t.Helper()
	old := b.primary(nil)
	started := time.Now()
	inject(old)
	rig.Within(b.t, healthyMax, pollEvery, "another node is the primary", func() bool { return b.primary(old) != nil })
	b.waitStored(b.t, time.Now())
	repair(old)
	b.waitHealthy()
	b.waitStored(b.t, time.Now())
	return b.downtime(started)
}

// switchPrimary makes a synchronous standby the primary, without a failure.
func (b *testbed) switchPrimary() time.Duration {
	b.t.Helper()
	started := time.Now()
	old := b.primary(nil)
	if err := b.switchover(old); err != nil {
		b.t.Fatal(err)
	}
	rig.Within(b.t, healthyMax, pollEvery, "another node is the primary", func() bool { return b.primary(old) != nil })
	b.waitStored(b.t, time.Now())
	b.waitHealthy()
	b.waitStored(b.t, time.Now())
	return b.downtime(started)
}

// cutStandbys disconnects both standbys. No plant may be acknowledged until they are connected again.
func (b *testbed) cutStandbys() time.Duration {
	b.t.Helper()
	standbys := b.others(b.primary(nil))
	for _, h := range standbys {
		h.cut()
	}
	b.checkNoWrites("without a standby")
	connected := time.Now()
	for _, h := range standbys {
		h.connect()
	}
	b.waitStored(b.t, connected)
	return b.downtime(connected)
}

// checkNoWrites waits until each client has sent two more requests, and fails the test if one of them was acknowledged.
func (b *testbed) checkNoWrites(condition string) {
	b.t.Helper()
	started := time.Now()
	rig.Within(b.t, healthyMax, pollEvery, "each client has sent two requests", func() bool {
		return b.triedSince(started)
	})
	if n := b.storedSince(started); n > 0 {
		b.t.Errorf("%d plants were acknowledged %s", n, condition)
	}
}
