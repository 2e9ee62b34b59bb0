package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
)

// contents are the backups, timelines and segments of a destination. The reader never guesses: a timeline has one
// commit for each number, and the owner names the timeline that counts. What does not follow from that is an error.
type contents struct {
	archive   *Archive
	owner     owner // the zero value without one
	timelines map[string]timeline
	segments  map[string][]segment // by their timelines, sorted by their first commits, the longest first
	needed    map[string][]segment // those that no earlier one covers, so that their last commits ascend too
	bases     []Backup             // complete ones
	faults    []string             // of the other ones
	kept      time.Time            // retention has removed the commits before it that follow a backup; zero: none
}

// contents reads the lists of a destination and the manifests of its backups.
func (a *Archive) contents(ctx context.Context) (c *contents, err error) {
	files, err := a.to.list(ctx, a.names.prefix())
	if err != nil {
		return nil, err
	}
	var named, bases []Backup
	var faults []string
	for _, f := range files {
		b, ok := a.names.named(f.name)
		if !ok {
			continue
		}
		named = append(named, b)
		b.Manifest, err = a.to.manifest(ctx, b.Name)
		if errors.Is(err, fs.ErrNotExist) { // retention has removed it since the list, and what an older one needs
			return nil, err
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", a.to.location(b.Name), err))
			continue
		}
		bases = append(bases, b)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c, err = a.contentsWith(ctx, bases)
	if err != nil {
		return nil, err
	}
	c.faults, c.kept = faults, keptSince(named)
	for _, all := range c.segments {
		if slices.ContainsFunc(all, func(s segment) bool { return s.To.Before(c.kept) }) { // it will remove them
			c.kept = time.Time{}
		}
	}
	return c, nil
}

// contentsWith reads the list of the segments and timelines, and the owner, of a destination with complete backups.
func (a *Archive) contentsWith(ctx context.Context, bases []Backup) (c *contents, err error) {
	c = &contents{
		archive: a, timelines: map[string]timeline{}, bases: bases,
		segments: map[string][]segment{}, needed: map[string][]segment{},
	}
	owned, err := a.readOwner(ctx)
	var files []file
	for err == nil {
		c.owner = owned
		if files, err = a.to.list(ctx, a.names.segmentPrefix()); err == nil {
			owned, err = a.readOwner(ctx)
		}
		if owned == c.owner { // else a server has taken over meanwhile, and the list may lack its timeline or be older
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if s, ok := journal.ParseName(a.names.segmentPrefix(), f.name); ok {
			c.segments[s.Timeline] = append(c.segments[s.Timeline], segment{s, f.name, f.bytes})
		} else if id, ok := a.names.timelineOf(f.name); ok {
			if c.timelines[id], err = a.readTimeline(ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	for id, all := range c.segments {
		slices.SortFunc(all, func(a, b segment) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Last, a.Last))
		})
		last := int64(0)
		for _, s := range all {
			if s.Last > last {
				c.needed[id] = append(c.needed[id], s)
				last = s.Last
			}
		}
	}
	return c, nil
}

// forget removes a damaged backup.
func (c *contents) forget(base Backup) {
	c.bases = slices.DeleteFunc(c.bases, func(b Backup) bool { return b.Name == base.Name })
}

// current returns the timeline of the newest state: that of the owner. Without an owner, which somebody may have
// removed, it is the only one that none has left out or follows. It is empty if only backups were made.
func (c *contents) current() (id string, err error) {
	switch id = c.owner.Timeline; {
	case id != "" && (c.timelines[id].ID != "" || c.isUsed(id)):
		return id, nil
	case id != "":
		return c.after(c.owner.After), nil
	}
	known := map[string]bool{}
	for _, t := range c.timelines {
		known[t.From] = true
		known[t.ID] = known[t.ID] || t.Fenced
		for _, id := range t.Knew {
			known[id] = true
		}
	}
	all := slices.DeleteFunc(c.ids(), func(id string) bool { return known[id] })
	if len(all) > 1 {
		return "", fmt.Errorf("%s is missing, and there are the timelines %s; name one with --timeline",
			c.archive.to.location(c.archive.names.ownerName()), strings.Join(all, " and "))
	}
	return strings.Join(all, ""), nil
}

// after returns the timeline that counts while that of the owner has not begun, or never will: the one before, or the
// only one with commits that has followed that, while the owner's server was about to store its session.
func (c *contents) after(id string) string {
	later := c.strangers(id)
	for _, other := range later {
		known := c.known(other)
		if known[id] && !slices.ContainsFunc(later, func(id string) bool { return !known[id] }) {
			return other
		}
	}
	return id
}

// ids returns the timelines.
func (c *contents) ids() []string {
	all := slices.Concat(slices.Collect(maps.Keys(c.timelines)), slices.Collect(maps.Keys(c.segments)))
	for _, b := range c.bases {
		if b.Manifest.Timeline != "" {
			all = append(all, b.Manifest.Timeline)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// stretch is a part of a timeline, up to a commit.
type stretch struct {
	timeline string
	last     int64
}

// line returns the stretches that lead to the end of a timeline, the last one first.
func (c *contents) line(id string) (line []stretch) {
	for last := int64(math.MaxInt64); ; {
		line = append(line, stretch{id, last})
		t := c.timelines[id]
		if t.From == "" || slices.ContainsFunc(line, func(s stretch) bool { return s.timeline == t.From }) {
			return line
		}
		id, last = t.From, min(last, t.Commits)
	}
}

// end returns the number of the last commit of a timeline in the destination, and the short history after it; empty if
// it is not known. A gap before it is possible.
func (c *contents) end(id string) (last int64, history string) {
	last = c.timelines[id].Commits
	for _, s := range c.segments[id] {
		if s.Last > last {
			last, history = s.Last, s.After[:journal.ShortHistory]
		}
	}
	for _, b := range c.bases {
		if m := b.Manifest; m.Timeline == id && m.Commits > last && len(m.History) >= journal.ShortHistory {
			last, history = m.Commits, m.History[:journal.ShortHistory]
		}
	}
	return last, history
}

// hasCommits reports whether the destination has a commit of a timeline.
func (c *contents) hasCommits(id string) bool {
	last, _ := c.end(id)
	return last > c.timelines[id].Commits
}

// isUsed reports whether the destination has a backup or a segment of a timeline.
func (c *contents) isUsed(id string) bool {
	isOf := func(b Backup) bool { return b.Manifest.Timeline == id }
	return len(c.segments[id]) > 0 || slices.ContainsFunc(c.bases, isOf)
}

// known returns the timelines that lead to one, and those that they have left out. Each of them had the owner once.
func (c *contents) known(id string) map[string]bool {
	known := map[string]bool{}
	for _, s := range c.line(id) {
		known[s.timeline] = true
		for _, left := range c.timelines[s.timeline].Knew {
			known[left] = true
		}
	}
	return known
}

// strangers returns the other timelines with commits. Two servers took over at the same time.
func (c *contents) strangers(id string) (ids []string) {
	known := c.known(id)
	for _, s := range c.line(id) {
		for _, unused := range c.timelines[s.timeline].Unused {
			known[unused] = true
		}
	}
	return slices.DeleteFunc(c.ids(), func(other string) bool {
		return known[other] || c.timelines[other].Fenced || !c.hasCommits(other)
	})
}

// step is a segment whose commits up to a number are repeated.
type step struct {
	segment

	until int64
}

// plan is how a restore returns the store at a point.
type plan struct {
	base     Backup
	steps    []step
	timeline string    // of the last commit
	at       time.Time // of the point
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
	if others := c.strangers(current); len(others) > 0 && point.Timeline == "" {
		return p, fmt.Errorf("%s has the timelines %s and %s of servers that took over at the same time, and each may have "+
			"acknowledged plants that the others lack; restore each of them with --timeline, and compare",
			c.archive.to.location(""), current, strings.Join(others, " and "))
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
	p.timeline, p.at = id, at
	line, found := c.line(id), false
	for _, b := range c.bases {
		m := b.Manifest
		if isOn(line, m) && (at.IsZero() || !until(m).After(at)) && (!found || m.Commits > p.base.Manifest.Commits) {
			p.base, found = b, true
		}
	}
	if !found {
		return p, c.noBase(id, at)
	}
	made := until(p.base.Manifest)
	p.steps, err = c.stepsAfter(line, p.base.Manifest.Commits, made, at)
	if n := len(p.steps); err == nil && made.Before(at) && at.Before(c.kept) && (n == 0 || p.steps[n-1].To.Before(at)) {
		err = fmt.Errorf("%s: the commits of that time were removed with old backups; %s",
			c.archive.to.location(""), restoreUntil(made))
	}
	return p, err
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
	reached := p.base.Manifest.Commits
	if n := len(p.steps); n > 0 {
		reached = p.steps[n-1].until
	}
	return err == nil && reached >= commit
}

// noBase returns the error that no backup leads to a timeline, or to a time.
func (c *contents) noBase(id string, at time.Time) error {
	to := c.archive.to.location("")
	switch {
	case len(c.bases) == 0:
		return fmt.Errorf("%s%s has no complete backup", strings.Join(append(c.faults, ""), "; "), to)
	case !at.IsZero():
		return fmt.Errorf("%s has no complete backup from before that time", to)
	}
	return fmt.Errorf("%s has no undamaged backup of the timeline %s", to, id)
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
						c.archive.to.location(name), restoreUntil(until))
				}
				break
			}
			have = min(s.Last, part.last)
			steps, until = append(steps, step{s, have}), s.To
		}
	}
	return steps, nil
}

// segmentWith returns the segment of a timeline that has a commit, of several the one with the most commits after it.
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
