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

	"plantstore/internal/sqlite/journal"
)

type segment struct {
	journal.Segment // as far as its name has it

	name  string
	bytes int64
}

// contents are the backups, timelines and segments of a destination. The reader never guesses: a timeline has one
// commit for each number, and the owner names the timeline that counts. What does not follow from that is an error.
type contents struct {
	archive   *Archive
	owner     owner // the zero value without one
	timelines map[string]timeline
	segments  map[string][]segment // by their timelines, sorted by their first commits, the longest first
	needed    map[string][]segment // those that no earlier one covers, so that their last commits ascend too
	bases     []Backup             // complete ones
	files     []Backup             // with the other ones
	kept      time.Time            // retention has removed the commits before it that follow a backup; zero: none
}

// contents reads the lists of a destination and the manifests of its backups.
func (a *Archive) contents(ctx context.Context) (*contents, error) {
	files, err := a.files(ctx)
	if err != nil {
		return nil, err
	}
	return a.contentsOf(ctx, files)
}

// contentsOf is contents for a list. The error wraps fs.ErrNotExist if a backup was removed since then: retention has
// removed what an older one needs too.
func (a *Archive) contentsOf(ctx context.Context, files []Backup) (c *contents, err error) {
	var bases []Backup
	for i := range files {
		b := &files[i]
		if a.inspect(ctx, b); errors.Is(b.Fault, fs.ErrNotExist) {
			return nil, b.Fault
		}
		if b.Fault == nil {
			bases = append(bases, *b)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if c, err = a.contentsWith(ctx, bases); err != nil {
		return nil, err
	}
	c.files, c.kept = files, keptSince(files)
	for _, all := range c.segments {
		if slices.ContainsFunc(all, func(s segment) bool { return s.To.Before(c.kept) }) { // it will remove them
			c.kept = time.Time{}
		}
	}
	return c, nil
}

// faults describes the backups that are not complete.
func (c *contents) faults() (all []string) {
	for _, b := range c.files {
		if b.Fault != nil {
			all = append(all, fmt.Sprintf("%s: %v", b.Location, b.Fault))
		}
	}
	return all
}

// contentsWith reads the list of the segments and timelines, and the owner, of a destination with complete backups. A
// list is no snapshot: while a server merges segments, it may have neither these nor the merged one. So one with a gap
// is read again.
func (a *Archive) contentsWith(ctx context.Context, bases []Backup) (*contents, error) {
	a.mu.Lock()
	known := a.gaps
	a.mu.Unlock()
	for {
		c, err := a.listed(ctx, bases)
		if err != nil {
			return nil, err
		}
		gaps := c.gaps()
		same := len(gaps) == 0 || slices.Equal(gaps, known)
		if known = gaps; same {
			a.mu.Lock()
			a.gaps = gaps
			a.mu.Unlock()
			return c, nil
		}
	}
}

// gaps returns the names of the objects which show that the list lacks commits before them.
func (c *contents) gaps() (names []string) {
	for id, needed := range c.needed {
		last := c.timelines[id].Commits
		for _, s := range needed {
			if s.First > last+1 {
				names = append(names, s.name)
			}
			last = s.Last
		}
	}
	for id, t := range c.timelines {
		if last, _ := c.end(t.From); t.From != "" && last < t.Commits {
			names = append(names, c.archive.names.timelineName(id))
		}
	}
	slices.Sort(names)
	return names
}

// listed is contentsWith for a single list.
func (a *Archive) listed(ctx context.Context, bases []Backup) (c *contents, err error) {
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

// current returns the timeline of the newest state, the owner's. Without an owner, which somebody may have
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

// after returns the timeline that counts while the owner's has not begun, or never will: the one before, or the only
// one with commits that has followed that one, while the owner's server was about to store its session.
func (c *contents) after(id string) string {
	later := c.diverged(id)
	for _, other := range later {
		known := c.known(other)
		if known[id] && !slices.ContainsFunc(later, func(id string) bool { return !known[id] }) {
			return other
		}
	}
	return id
}

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

// isUnusedSince reports whether a timeline and those that it follows have no commits, back to one that follows a wanted
// one. Starts that failed or were killed leave such timelines.
func (c *contents) isUnusedSince(id string, wanted func(from string) bool) bool {
	for _, part := range c.line(id) {
		t := c.timelines[part.timeline]
		if t.ID == "" || c.isUsed(t.ID) {
			return false
		}
		if wanted(t.From) {
			return true
		}
	}
	return false
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

// diverged returns the timelines with commits that do not lead to this one: two servers took over at the same time.
func (c *contents) diverged(id string) (ids []string) {
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
