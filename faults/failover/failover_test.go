// Package failover has a cluster of PostgreSQL fail over under load, and looks
// whether every acknowledged plant is there afterwards, once and as it was sent,
// and how long writes stood still.
//
// A cluster is three hosts with PostgreSQL, and what manages them: Patroni, in
// synchronous strict mode, with an etcd; or pg_auto_failover, whose monitor is a
// host of its own. A host is a network namespace on a bridge, and a process
// namespace. Two servers are given the names of all three hosts. The kinds:
//
//	kill        all processes of the primary's host end at once, and start again
//	freeze      they are stopped, and go on when another node is the primary
//	cut         the primary's host is off the network, until another is the primary
//	switchover  an operator makes the standby the primary
//	standbys    both standbys are off the network: nothing may be acknowledged
//
// With Patroni besides:
//
//	etcd        etcd is killed: the primary steps down, and nothing may be acknowledged
//
// With pg_auto_failover besides:
//
//	standby     one of two standbys is off the network: writes go on
//	two         that, and then the primary is killed: nothing may be acknowledged
//	            until the standby is back
//	monitor     the monitor is killed: writes go on
//	alone       the primary is killed, and the other standby is off the network when
//	            one takes over: nothing may be acknowledged by a primary alone
//
// The short form is a kill and a switchover of each, and the controls:
//
//	go test -v ./failover
//	go test -v -timeout 0 ./failover -args -long
//	go test -v ./failover -run TestPatroni -args -kinds cut,cut,etcd
//
// It needs root, and Debian's packages patroni, python3-etcd, etcd-server,
// pg-auto-failover-cli, postgresql-15-auto-failover and postgresql-15.
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
	long = flag.Bool("long", false, "all kinds, several times each")
	only = flag.String("kinds", "", "the `kinds` to try, with commas; empty: those of the form")
	seed = flag.Uint64("seed", 0, "what decides the order of the kinds and the plants; 0: another each time")
)

// goOnMax is how long writes may stand still.
const goOnMax = 30 * time.Second

// kind is one thing that is done to a cluster. It leaves it so that it becomes
// whole by itself, and returns for how long writes stood still.
type kind func(*trial) time.Duration

// withKinds are the kinds that every cluster is tried with, and some besides.
func withKinds(more map[string]kind) map[string]kind {
	kinds := map[string]kind{
		"kill":       func(r *trial) time.Duration { return r.fail((*host).kill, (*host).start) },
		"freeze":     func(r *trial) time.Duration { return r.fail((*host).freeze, (*host).thaw) },
		"cut":        func(r *trial) time.Duration { return r.fail((*host).cut, (*host).heal) },
		"switchover": (*trial).handOver,
		"standbys":   (*trial).loseStandbys,
	}
	maps.Copy(kinds, more)
	return kinds
}

// trial is a cluster under load.
type trial struct {
	*cluster
	*load
}

// tryKinds tries kinds one after the other, in the long form each several times.
func tryKinds(t *testing.T, c *cluster, kinds map[string]kind, times int) {
	t.Helper()
	program := rig.Build(t)
	chosen := rig.Seed(t, *seed)
	r := &trial{c, newLoad(t, program, c, chosen)}
	var all []time.Duration
	for i, name := range order(chosen, kinds, times) {
		try, known := kinds[name]
		if !known {
			t.Fatalf("there is no kind %q here", name)
		}
		begun := time.Now()
		r.mark()
		stood := try(r)
		r.whole()
		r.goesOn(t, time.Now())
		n := r.check(t, program, r.leader(nil))
		t.Logf("failover %d, %s: writes stood still for %.1f s; after %.1f s all is whole again, with all of %d acknowledged plants", i+1, name, stood.Seconds(), time.Since(begun).Seconds(), n)
		if stood > goOnMax {
			t.Errorf("writes stood still for %s, want at most %s", stood, goOnMax)
		}
		all = append(all, stood)
	}
	slices.Sort(all)
	t.Logf("writes stood still for %.1f s at most, the median is %.1f s", all[len(all)-1].Seconds(), all[len(all)/2].Seconds())
}

// order is which kinds are tried.
func order(seed uint64, kinds map[string]kind, times int) (names []string) {
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

// handOver makes a synchronous standby the primary, in order.
func (r *trial) handOver() time.Duration {
	r.t.Helper()
	begun := time.Now()
	old := r.leader(nil)
	if err := r.switchover(old); err != nil {
		r.t.Fatal(err)
	}
	rig.Within(r.t, wholeMax, pollEvery, "another node is the primary", func() bool { return r.leader(old) != nil })
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
