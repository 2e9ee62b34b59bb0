package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"plantstore/internal/sqlite/backupfile"
)

// A restore follows a plan: a backup, and the segments that lead from its last commit to the wanted one.
//
//   - The owner names the timeline of the newest state. For an earlier time, it is the one that was current then
//     (currentAt).
//   - The line of a timeline leads back over the timelines that it follows. Each stretch of it ends at the commit that
//     the next one follows, so a line has one commit for each number.
//   - The plan begins with the backup on the line that has the most commits, none of them later than the time (baseOf).
//   - It goes on with the segment that has the next number, up to the end of the line or the time (stepsAfter). If
//     there is none although the destination shows later commits of the line, one is missing, and that is an error.
//
// The restore checks the history of each commit, so it returns the planned state or an error.

// step is a segment whose commits up to a number are repeated.
type step struct {
	segment

	until int64
}

// plan is how a restore returns the store at a point.
type plan struct {
	base     Backup
	steps    []step
	timeline string    // has the last commit
	at       time.Time // time of the point
	newest   bool
	leftOut  []string // what no restore of the newest state has
}

// planFor returns the plan for a point. The error tells that the state is not known.
func (c *contents) planFor(point Point) (p plan, err error) {
	current, err := c.current()
	if point.Timeline != "" {
		current, err = point.Timeline, nil
		if all := c.ids(); !slices.Contains(all, current) {
			err = fmt.Errorf("%s has no timeline %s; it has %s",
				c.archive.to.location(""), current, cmp.Or(strings.Join(all, " and "), "none"))
		}
	}
	if err != nil {
		return p, err
	}
	if others := c.diverged(current); len(others) > 0 && point.Timeline == "" {
		return p, fmt.Errorf("%s %s", c.archive.to.location(""), conflictText(append([]string{current}, others...)))
	}
	p, err = c.plan(current, point.At)
	p.newest = point == Point{}
	if err == nil && point.At.IsZero() { // a state at a time may have them, and lacks all later ones
		p.leftOut = c.leftOut(current)
	}
	return p, err
}

// plan returns the plan that leads to the end of a timeline, or, with a time, to the last commit until then of the
// timeline that was the current one.
func (c *contents) plan(id string, at time.Time) (p plan, err error) {
	if !at.IsZero() {
		if id, err = c.currentAt(id, at); err != nil {
			return p, err
		}
	}
	line := c.line(id)
	p = plan{timeline: id, at: at}
	if p.base, err = c.baseOf(line, at); err != nil {
		return p, err
	}
	made := until(p.base.Manifest)
	p.steps, err = c.stepsAfter(line, p.base.Manifest.Commits, made, at)
	if _, end := p.end(); err == nil && made.Before(at) && at.Before(c.kept) && end.Before(at) {
		err = fmt.Errorf("%s: the commits of that time were removed with old backups; %s",
			c.archive.to.location(""), restoreUntil(made))
	}
	return p, err
}

// end returns the number of the last commit, and the time of the end of its segment, or of the backup without one.
func (p *plan) end() (commit int64, at time.Time) {
	if n := len(p.steps); n > 0 {
		return p.steps[n-1].until, p.steps[n-1].To
	}
	return p.base.Manifest.Commits, until(p.base.Manifest)
}

// baseOf returns the backup on a line with the most commits, none of them later than a time.
func (c *contents) baseOf(line []stretch, at time.Time) (base Backup, err error) {
	for _, b := range c.bases {
		m := b.Manifest
		if isOn(line, m) && (at.IsZero() || !until(m).After(at)) && (base.Name == "" || m.Commits > base.Manifest.Commits) {
			base = b
		}
	}
	to := c.archive.to.location("")
	switch {
	case base.Name != "":
		return base, nil
	case len(c.bases) == 0:
		return base, fmt.Errorf("%s%s has no complete backup", strings.Join(append(c.faults(), ""), "; "), to)
	case !at.IsZero():
		return base, fmt.Errorf("%s has no complete backup from before that time", to)
	}
	return base, fmt.Errorf("%s has no undamaged backup of the timeline %s", to, line[0].timeline)
}

// isOn reports whether a line has the last commit of a backup.
func isOn(line []stretch, m backupfile.Manifest) bool {
	return slices.ContainsFunc(line, func(s stretch) bool { return s.timeline == m.Timeline && m.Commits <= s.last })
}

// until returns a time that no commit in a backup is later than, and none after it is earlier than.
func until(m backupfile.Manifest) time.Time {
	if m.CommittedAt.IsZero() {
		return m.MadeAt
	}
	return m.CommittedAt
}

// currentAt returns the timeline that was the current one at a time, as far as the owner of a later one knew.
func (c *contents) currentAt(id string, at time.Time) (string, error) {
	if !c.timelines[id].Since.After(at) {
		return id, nil
	}
	known := c.known(id)
	line := c.line(id)
	id = line[len(line)-1].timeline
	for other := range known {
		t := c.timelines[other]
		if t.ID == "" && c.isUsed(other) {
			return "", fmt.Errorf("%s is missing, so the state at that time is not known; name a timeline with --timeline",
				c.archive.to.location(c.archive.names.timelineName(other)))
		}
		if !t.Since.After(at) && t.Since.After(c.timelines[id].Since) {
			id = other
		}
	}
	return id, nil
}

// leads reports whether a backup and segments lead to a commit of a timeline, and will do so.
func (c *contents) leads(id string, commit int64) bool {
	p, err := c.plan(id, time.Time{})
	for _, part := range c.line(id) {
		if part.timeline == p.base.Manifest.Timeline {
			break
		}
		if c.timelines[part.timeline].Earlier {
			return false
		}
	}
	reached, _ := p.end()
	return err == nil && reached >= commit
}

// stepsAfter returns the segments of a line after a commit, up to which the line is known until a time: to the end of
// the line, or to the first one that does not end before the time at.
func (c *contents) stepsAfter(line []stretch, have int64, until, at time.Time) (steps []step, err error) {
	for _, part := range slices.Backward(line) {
		for have < part.last && (at.IsZero() || until.Before(at)) {
			s, found := c.segmentWith(part.timeline, have+1)
			if !found {
				if name := c.later(part, have); name != "" {
					return steps, fmt.Errorf("%s: the commits before it are missing; %s",
						c.archive.to.location(name), c.archive.remedy(until))
				}
				break
			}
			have = min(s.Last, part.last)
			steps, until = append(steps, step{s, have}), s.To
		}
	}
	return steps, nil
}

// segmentWith returns the segment of a timeline that has a commit; if there are several, the one with the most
// commits after it.
func (c *contents) segmentWith(id string, commit int64) (best segment, found bool) {
	all := c.needed[id]
	after, _ := slices.BinarySearchFunc(all, commit+1, func(s segment, n int64) int { return cmp.Compare(s.First, n) })
	if after == 0 || all[after-1].Last < commit {
		return best, false
	}
	return all[after-1], true
}

// later returns the name of an object which shows that a stretch has commits after one; empty: there is none.
func (c *contents) later(part stretch, have int64) (name string) {
	for _, s := range c.segments[part.timeline] {
		if s.Last > have {
			return s.name
		}
	}
	for _, b := range c.bases {
		if b.Manifest.Timeline == part.timeline && b.Manifest.Commits > have {
			return b.Name
		}
	}
	for _, t := range c.timelines {
		if t.From == part.timeline && t.Commits > have {
			return c.archive.names.timelineName(t.ID)
		}
	}
	return ""
}

// leftOut describes the commits in the destination that are not in the newest state of a timeline.
func (c *contents) leftOut(id string) (all []string) {
	ends := map[string]int64{}
	for _, s := range c.line(id) {
		ends[s.timeline] = s.last
	}
	for _, other := range c.ids() {
		t := c.timelines[other]
		last, _ := c.end(other)
		counted, onLine := ends[other]
		if !onLine {
			counted = t.Commits
		}
		if last > counted {
			form := "%d commits by the server on %s after commit %d are not included; --timeline %s restores them"
			if last-counted == 1 {
				form = "%d commit by the server on %s after commit %d is not included; --timeline %s restores it"
			}
			all = append(all, fmt.Sprintf(form, last-counted, cmp.Or(t.Host, "an unknown host"), counted, other))
		}
	}
	return all
}
