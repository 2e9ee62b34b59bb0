package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"plantstore/internal/sqlite/dbfile"
)

// The clocks of the servers run at different speeds: for an owner no time passes, so that it always has renewed its
// ownership; for a standby the explorer decides after each round whether --failover has passed.

const testFailover = 24 * time.Hour

// leading runs at the start, and shows that it lives.
func leading(s *server) {
	s.resumed()
	s.create(1)
	s.pause()
	s.renew(1)
	s.create(1)
	s.stop()
}

// claiming is a server that starts as the owner, and creates plants.
func claiming(s *server) {
	if s.start() {
		s.create(1)
		s.pause()
		s.create(1)
		s.stop()
	}
}

// handing is leading until a standby asks for the destination. It then is a standby itself, as after it was fenced.
func handing(s *server) {
	s.resumed()
	s.create(1)
	for n := range int64(2) {
		s.renew(n + 1)
		if s.isAsked() {
			break
		}
	}
	s.create(1) // accepted before the end of the drain
	s.handOver()
	s.stand(1, false)
}

// returning is leading, and starts again after its end.
func returning(s *server) {
	leading(s)
	s.again()
}

// keeping is leading, merges segments, and makes a backup and removes what is older. It hands over if it is asked to.
func keeping(s *server) {
	s.resumed()
	s.create(1)
	s.merge()
	s.create(1)
	s.pause()
	s.retain()
	s.renew(1)
	if !s.isAsked() {
		s.stop()
		return
	}
	s.handOver()
	s.stand(1, false)
}

// succeeding is standing, and merges segments and makes a backup as the owner.
func succeeding(s *server) {
	if !s.stand(2, true) && !s.stand(1, true) {
		return
	}
	s.create(1)
	s.merge()
	s.retain()
	s.stop()
}

// watching is a standby without --failover.
func watching(s *server) {
	s.watches = true
	s.stand(2, false)
}

// resuming is standing, and starts again after its end.
func resuming(s *server) {
	standing(s)
	if s.dead {
		s.again()
	}
}

// reviving is standing, and is started again with --take-over after its end.
func reviving(s *server) {
	if s.stand(2, true) {
		s.create(1)
		s.stop()
	}
	if s.allowed = s.dead; s.dead {
		s.again()
	}
}

// standing takes over, and creates plants. It starts again after a crash.
func standing(s *server) {
	if !s.stand(2, true) && !s.stand(1, true) {
		return
	}
	s.create(1)
	s.renew(1)
	s.create(1)
	s.stop()
}

// following is standing, and is a standby again when it was fenced.
func following(s *server) {
	standing(s)
	if s.dead || s.Service == nil || s.Fault() == nil {
		return
	}
	s.stand(1, false)
}

func standbyScenarios() []scenario {
	standby := program{"new", "newest", standing}
	one, two := program{"one", "newest", following}, program{"two", "newest", following}
	all := []scenario{
		{name: "standby", servers: []program{{"old", "owner", leading}, standby}},
		{name: "hand-over", promote: true, servers: []program{{"old", "owner", handing}, standby}},
		{name: "fail-back", servers: []program{{"old", "owner", returning}, standby}},
		{name: "late", servers: []program{{"old", "owner", claiming}, {"new", "newest", standing}}},
		{name: "race", servers: []program{one, two}},
		{name: "keep", servers: []program{{"old", "owner", keeping}, {"new", "behind", succeeding}}},
		{name: "keep-watch", servers: []program{{"old", "owner", keeping}, {"new", "behind", watching}}},
		{name: "keep-promote", promote: true, servers: []program{{"old", "owner", keeping}, {"new", "behind", succeeding}}},
		{name: "power", cuts: "all", servers: []program{{"old", "owner", returning}, {"new", "newest", resuming}}},
		{name: "revived", cuts: "standbys", servers: []program{{"old", "owner", leading}, {"new", "newest", reviving}}},
		{name: "standbys", servers: []program{{"old", "owner", leading}, one, two}},
	}
	for i := range all {
		all[i].failover = testFailover
	}
	return all
}

// TestInterleavingsOfStandbys explores the schedules of each scenario with a standby.
func TestInterleavingsOfStandbys(t *testing.T) {
	t.Parallel()
	for _, s := range standbyScenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			all := []bounds{{1, 0, true, ""}, {0, 1, true, ""}}
			switch {
			case testing.Short() && s.name == "revived":
				all = []bounds{{0, 1, true, ""}}
			case testing.Short() && s.name != "standby" && s.name != "keep":
				t.Skip("part of the long form")
			case testing.Short():
				all = []bounds{{0, 0, true, ""}}
			case s.name == "late":
				all = []bounds{{0, 1, true, ownerEnd}, {0, 1, true, renewalEnd}}
			case len(s.servers) > 2:
				all = []bounds{{0, 0, true, ""}}
			}
			exploreAll(t, s, all)
		})
	}
}

// mayWrite is sqlite.Config.MayWrite.
func (s *server) mayWrite() error {
	if !s.owns {
		return nil
	}
	return s.MayAccept()
}

// renew stores a renewal.
func (s *server) renew(n int64) {
	if s.w.scenario.failover > 0 && s.alive() {
		s.phase = "renew"
		_ = s.renewOnce(context.Background(), n)
	}
}

func (s *server) isAsked() bool {
	select {
	case <-s.Requested():
		return true
	default:
		return false
	}
}

// handOver ends an owner that a standby has asked for the destination.
func (s *server) handOver() {
	if s.alive() && s.isAsked() {
		s.stop()
		s.former = s.session
	}
}

// again starts the process again: as the owner, unless another server is.
func (s *server) again() {
	s.shut()
	s.phase = "start"
	check, err := newServiceOf(s.configuration(), &port{s})
	s.w.must(err)
	check.dry = true
	owner := false
	if _, err := check.claim(context.Background(), nil); IsRefusal(err) {
		owner = s.stand(1, true)
	} else if !s.dead {
		owner = s.start()
	}
	if owner {
		s.create(1)
		s.stop()
	}
}

// stand is a process that follows the owner for some rounds, as Standby.Open and Standby.run do, and reports whether it
// has taken over. With takesOver, --failover has passed at the end.
func (s *server) stand(rounds int, takesOver bool) bool {
	s.shut()
	ctx := context.Background()
	for n := 0; n < rounds && !s.dead; n++ {
		if !s.bring() {
			return false
		}
		st := s.standby
		s.phase = "follow"
		err := st.round(ctx)
		s.report(err)
		promote := false
		if s.w.scenario.promote && takesOver {
			command, errRequest := dbfile.RequestPromotion(s.db)
			s.w.must(errRequest)
			promote, _ = st.wantsPromotion(ctx)
			s.w.must(command.Close())
		}
		if err == nil && takesOver && !st.due(promote) && (n == rounds-1 || s.passes()) {
			st.renewed, st.askedAt = time.Time{}, time.Time{}
		}
		if err == nil && st.due(promote) {
			s.phase = "claim"
			if st.won, err = st.takeOver(ctx); err == nil && !s.dead {
				s.shut()
				s.caughtUp = st.won
				return s.claimOwn()
			}
			st.won = ""
			s.report(err)
		}
		if errors.Is(err, errRestore) && !s.dead {
			s.shut()
		}
	}
	return false
}

// bring opens the store of a standby, unless it is open, as Standby.Open does.
func (s *server) bring() bool {
	if s.standby != nil {
		return true
	}
	s.phase = "bring"
	st := newStandby(s.configuration(), &port{s}, s.former)
	s.former = ""
	for n := 0; n < 3 && st.live == nil && !s.dead; n++ {
		s.report(st.bring(context.Background()))
	}
	if st.live == nil {
		return false
	}
	s.standby, s.synced = st, 0
	if info, err := os.Stat(s.db + "-wal"); err == nil {
		s.synced = info.Size()
	}
	return true
}

// settle lets a standby follow when all others have ended: its store then is what a restore returns.
func (s *server) settle() {
	if s.standby == nil || s.dead || s.wait(&call{name: "end", pause: true, last: true, do: nothing}) != nil {
		return
	}
	a, c := s.w.read()
	p, err := c.planFor(Point{})
	if err != nil {
		return
	}
	want, have := s.w.reach(a, p), tip{}
	s.alone = true
	for range 2 {
		if !s.bring() {
			break
		}
		if err = s.standby.round(context.Background()); errors.Is(err, errRestore) {
			s.shut()
			continue
		}
		have.number, have.history, _ = s.standby.live.Commits()
	}
	if err != nil || have != want {
		s.w.violated("%s follows up to commit %d, and a restore has those up to %d, or others: %v",
			s.name, have.number, want.number, err)
	}
}

func nothing() (string, error) { return "", nil }

func (s *server) report(err error) {
	if err != nil {
		s.w.trace = append(s.w.trace, fmt.Sprintf("%-4s %-6s fails: %v", s.name, s.phase, s.w.plain(err.Error())))
	}
}

// pause lets another server go on.
func (s *server) pause() {
	if !s.dead {
		_ = s.wait(&call{name: "pause", pause: true, do: nothing})
	}
}

// passes lets the explorer decide whether --failover passes for the server now.
func (s *server) passes() bool {
	if s.dead {
		return false
	}
	c := &call{name: "--failover", choice: true, do: nothing}
	_ = s.wait(c)
	return c.passed
}

// checkStore checks the store of a server that has become the owner: it has each acknowledged plant, and is what a
// restore returns if the server was a standby.
func (s *server) checkStore() {
	w := s.w
	if w.free || w.scenario.earlier {
		return
	}
	have := w.plants(s.history)
	for _, acked := range w.acked {
		if !have[acked.plant] {
			w.violated("%s is the owner, and its store lacks plant %s, which was acknowledged", s.name, acked.plant)
		}
	}
	if s.caughtUp == "" {
		return
	}
	a, c := w.read()
	if c.owner.Session != s.session {
		return
	}
	p, err := c.planFor(Point{})
	w.must(err)
	if at := w.reach(a, p); at != (tip{s.commits, s.history}) {
		w.violated("%s is the owner with commits up to %d, and a restore has those up to %d, or others", s.name, s.commits,
			at.number)
	}
}
