// Package failover has a cluster of PostgreSQL fail over under load, and looks
// whether every acknowledged plant is there afterwards, once and as it was sent,
// and how long writes stood still.
//
// The cluster is three hosts with PostgreSQL and Patroni, in synchronous strict
// mode, and an etcd. A host is a network namespace on a bridge, and a process
// namespace. Two servers are given the names of all three hosts. The kinds:
//
//	kill        all processes of the primary's host end at once, and start again
//	freeze      they are stopped, and go on when another node is the primary
//	cut         the primary's host is off the network, until another is the primary
//	switchover  an operator makes the standby the primary
//	standbys    both standbys are off the network: nothing may be acknowledged
//	etcd        etcd is killed: the primary steps down, and nothing may be acknowledged
//
// The short form is a kill and a switchover, and the control:
//
//	go test -v ./failover
//	go test -v -timeout 0 ./failover -args -long
//	go test -v ./failover -run TestFailover -args -kinds cut,cut,etcd
//
// It needs root, and Debian's packages patroni, python3-etcd, etcd-server
// and postgresql-15.
package failover

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	long = flag.Bool("long", false, "30 failovers of all kinds")
	only = flag.String("kinds", "", "the `kinds` to try, with commas; empty: those of the form")
	seed = flag.Uint64("seed", 0, "what decides the order of the kinds and the plants; 0: another each time")
)

// goOnMax is how long writes may stand still.
const goOnMax = 30 * time.Second

// kinds are what is done to a cluster, by name. Each leaves it so that it becomes
// whole by itself, and returns for how long writes stood still.
var kinds = map[string]func(*trial) time.Duration{
	"kill":       func(r *trial) time.Duration { return r.fail((*host).kill, (*host).start) },
	"freeze":     func(r *trial) time.Duration { return r.fail((*host).freeze, (*host).thaw) },
	"cut":        func(r *trial) time.Duration { return r.fail((*host).cut, (*host).heal) },
	"switchover": (*trial).handOver,
	"standbys":   (*trial).loseStandbys,
	"etcd":       (*trial).loseEtcd,
}

// trial is a cluster under load.
type trial struct {
	*cluster
	*load
}

// TestFailover tries kinds one after the other.
func TestFailover(t *testing.T) {
	needHosts(t)
	program := rig.Build(t)
	chosen := rig.Seed(t, *seed)
	c := newCluster(t)
	r := &trial{c, newLoad(t, program, c.url(), chosen)}
	for i, kind := range order(chosen) {
		begun := time.Now()
		r.mark()
		stood := kinds[kind](r)
		r.whole()
		r.goesOn(r.t, time.Now())
		n := r.check(t, program, r.leader(nil))
		t.Logf("failover %d, %s: writes stood still for %.1f s; after %.1f s all is whole again, with all of %d acknowledged plants", i+1, kind, stood.Seconds(), time.Since(begun).Seconds(), n)
		if stood > goOnMax {
			t.Errorf("writes stood still for %s, want at most %s", stood, goOnMax)
		}
	}
}

// order is which kinds are tried.
func order(seed uint64) (names []string) {
	switch {
	case *only != "":
		return strings.Split(*only, ",")
	case !*long:
		return []string{"kill", "switchover"}
	}
	for name := range kinds {
		names = append(names, slices.Repeat([]string{name}, 5)...)
	}
	slices.Sort(names)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// fail does harm to the primary, waits until another goes on, and undoes it.
func (r *trial) fail(harm, undo func(*host)) time.Duration {
	r.t.Helper()
	old := r.leader(nil)
	begun := time.Now()
	harm(old)
	rig.Within(r.t, wholeMax, pollEvery, "another node is the primary", func() bool { return r.leader(old) != nil })
	r.goesOn(r.t, time.Now())
	undo(old)
	r.whole()
	r.goesOn(r.t, time.Now())
	return r.standstill(begun)
}

// handOver makes the synchronous standby the primary, in order.
func (r *trial) handOver() time.Duration {
	r.t.Helper()
	begun := time.Now()
	r.switchover(r.leader(nil), r.standby())
	r.goesOn(r.t, time.Now())
	r.whole()
	r.goesOn(r.t, time.Now())
	return r.standstill(begun)
}

// loseStandbys cuts both standbys off: nothing may be acknowledged until they are
// back.
func (r *trial) loseStandbys() time.Duration {
	r.t.Helper()
	away := r.others(r.leader(nil))
	for _, h := range away {
		h.cut()
	}
	r.standsStill("without a standby")
	back := time.Now()
	for _, h := range away {
		h.heal()
	}
	r.goesOn(r.t, back)
	return r.standstill(back)
}

// loseEtcd takes etcd away: the primary steps down, and nothing may be acknowledged
// until it is back.
func (r *trial) loseEtcd() time.Duration {
	r.t.Helper()
	r.etcd.kill()
	rig.Within(r.t, goOnMax, pollEvery, "the primary has stepped down", func() bool {
		for _, h := range r.nodes {
			if standby, err := r.ask(h, "postgres", "SELECT pg_is_in_recovery()"); err == nil && standby != "t" {
				return false
			}
		}
		return true
	})
	r.standsStill("without etcd")
	back := time.Now()
	r.etcd.start()
	r.goesOn(r.t, back)
	return r.standstill(back)
}

// standsStill wants nothing acknowledged from now on, for as long as it takes
// each client to try twice.
func (r *trial) standsStill(when string) {
	r.t.Helper()
	begun := time.Now()
	rig.Within(r.t, wholeMax, pollEvery, "every client has tried", func() bool { return r.triedAfter(begun) })
	if n := r.storedAfter(begun); n > 0 {
		r.t.Errorf("%d plants were acknowledged %s", n, when)
	}
}
