package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"plantstore/internal/sqlite/journal"
)

// graph has the backups and segments of a destination, and finds which follow each other. Several segments can follow
// the same commit: a killed server may store commits twice, and a restored store has another future.
type graph struct {
	archive *Archive
	bases   []Backup  // complete ones, newest first
	faults  []string  // of the other ones
	kept    time.Time // retention has removed the commits before it that follow a backup; zero: none
	all     []segment // sorted by their first commits, the longest first

	next  map[end][]segment // those that start at an end or have it inside
	known map[end]bool      // the ends of segments, and those that were found inside one
	exits map[string][]end  // inside a segment, by its name, at which another one starts

	limit  time.Time                 // of the routes
	last   map[string]journal.Commit // up to limit, of segments that have later commits too, without the changes
	routes map[end]*route            // that were found
}

// end is a commit with the short history after it.
type end struct {
	commits int64
	history string
}

func startOf(s segment) end { return end{s.First - 1, s.Before[:journal.ShortHistory]} }
func endOf(s segment) end   { return end{s.Last, s.After[:journal.ShortHistory]} }

// endOfBackup returns the end of a backup; ok is false if its commits are not recorded.
func endOfBackup(b Backup) (e end, ok bool) {
	if len(b.Manifest.History) < journal.ShortHistory {
		return end{b.Manifest.Commits, ""}, false
	}
	return end{b.Manifest.Commits, b.Manifest.History[:journal.ShortHistory]}, true
}

// step is a segment whose commits up to an end are repeated.
type step struct {
	segment

	until end
}

// route is a step with the steps after it. The empty step is the end.
type route struct {
	step step
	next *route
	to   time.Time // of the latest commit up to the limit; zero: none
	last time.Time // of the latest commit
}

// graph reads the lists of a destination. The error is that it has no complete backup, or backups of several stores.
func (a *Archive) graph(ctx context.Context) (g *graph, err error) {
	files, err := a.to.list(ctx, a.names.prefix())
	if err != nil {
		return nil, err
	}
	var named, bases []Backup
	var faults []string
	stores := map[string]bool{}
	for _, f := range files {
		b, ok := a.names.named(f.name)
		if !ok {
			continue
		}
		named = append(named, b)
		if b.Manifest, err = a.to.manifest(ctx, b.Name); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", a.to.location(b.Name), err))
			continue
		}
		bases = append(bases, b)
		stores[b.Manifest.Store] = true
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(bases) == 0:
		return nil, fmt.Errorf("%s%s has no complete backup", strings.Join(append(faults, ""), "; "), a.to.location(""))
	case len(stores) > 1:
		return nil, fmt.Errorf("%s has backups of %d stores with the same name; move the backups of the other ones away",
			a.to.location(""), len(stores))
	}
	g, err = a.graphOf(ctx, bases)
	if err != nil {
		return nil, err
	}
	g.faults, g.kept = faults, keptSince(named)
	if slices.ContainsFunc(g.all, func(s segment) bool { return s.To.Before(g.kept) }) { // it will remove them
		g.kept = time.Time{}
	}
	return g, nil
}

// graphOf returns the graph of the segments of a destination and of backups.
func (a *Archive) graphOf(ctx context.Context, bases []Backup) (g *graph, err error) {
	g = &graph{
		archive: a, bases: bases, next: map[end][]segment{}, known: map[end]bool{}, exits: map[string][]end{},
	}
	slices.SortStableFunc(g.bases, func(x, y Backup) int { return y.Manifest.MadeAt.Compare(x.Manifest.MadeAt) })
	if g.all, err = listSegments(ctx, a.to, a.names); err != nil {
		return nil, err
	}
	for _, s := range g.all {
		g.next[startOf(s)] = append(g.next[startOf(s)], s)
		g.known[endOf(s)] = true
	}
	return g, g.findInside(ctx)
}

// forget removes a damaged backup.
func (g *graph) forget(base Backup) {
	g.bases = slices.DeleteFunc(g.bases, func(b Backup) bool { return b.Name == base.Name })
}

// findInside finds the ends inside segments at which other segments start or that a backup has. It only reads segments
// around such an end.
func (g *graph) findInside(ctx context.Context) error {
	wanted := map[end]bool{} // whether a segment starts there
	for _, b := range g.bases {
		if e, ok := endOfBackup(b); ok {
			wanted[e] = false
		}
	}
	for e := range g.next {
		wanted[e] = true
	}
	ends := slices.Collect(maps.Keys(wanted))
	for _, s := range g.all {
		inside, err := g.archive.inside(ctx, s, ends)
		if err != nil {
			return err
		}
		for _, e := range inside {
			g.known[e] = true
			g.next[e] = append(g.next[e], s)
			if wanted[e] {
				g.exits[s.name] = append(g.exits[s.name], e)
			}
		}
	}
	return nil
}

// inside returns the ends that lie between two commits of a segment; in a damaged segment, those before the damage.
func (a *Archive) inside(ctx context.Context, s segment, ends []end) (inside []end, err error) {
	unknown := map[end]bool{}
	a.mu.Lock()
	for _, e := range ends {
		if e.commits < s.First || e.commits >= s.Last {
			continue
		}
		has, known := a.inner[inner{s.name, e}]
		if !known {
			unknown[e] = true
		} else if has {
			inside = append(inside, e)
		}
	}
	a.mu.Unlock()
	if len(unknown) == 0 {
		return inside, nil
	}
	content, err := readSegment(ctx, a.to, s)
	if err != nil {
		return nil, err
	}
	_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
		if e := (end{c.Number, after.Short()}); unknown[e] {
			inside = append(inside, e)
		}
		return nil
	})
	if err != nil && !errors.Is(err, journal.ErrDamaged) {
		return nil, err
	}
	const innerMax = 10_000
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.inner) > innerMax {
		clear(a.inner)
	}
	for e := range unknown {
		a.inner[inner{s.name, e}] = slices.Contains(inside, e)
	}
	return inside, nil
}

// after calls visit with each step that can follow an end.
func (g *graph) after(from end, visit func(step)) {
	for _, s := range g.next[from] {
		visit(step{s, endOf(s)})
		for _, exit := range g.exits[s.name] {
			if exit.commits > from.commits {
				visit(step{s, exit})
			}
		}
	}
}

// follow returns the route after an end that leads to the latest commit up to the limit.
func (g *graph) follow(from end) *route {
	if found := g.routes[from]; found != nil {
		return found
	}
	best := &route{}
	g.after(from, func(s step) {
		r := &route{step: s, next: g.follow(s.until)}
		// A step to an exit counts the later commits of its segment too. A route can go on with them from there.
		r.to, r.last = r.next.to, later(r.next.last, s.To)
		if last, split := g.last[s.name]; !split && !s.To.After(g.limit) {
			r.to = later(r.to, s.To)
		} else if last.Number > from.commits {
			r.to = later(r.to, last.At)
		}
		// Without a commit up to the limit, or with the same one, the route may still have more.
		if best.step.name == "" || cmp.Or(r.to.Compare(best.to), r.last.Compare(best.last)) > 0 {
			best = r
		}
	})
	g.routes[from] = best
	return best
}

// setLimit sets the limit of the routes: a time, or without one a minute from now, because the clock was ahead when a
// later commit was made.
func (g *graph) setLimit(ctx context.Context, at time.Time) error {
	if at.IsZero() {
		at = time.Now().Add(clockSkew)
	}
	g.limit, g.last, g.routes = at, map[string]journal.Commit{}, map[end]*route{}
	for _, s := range g.all {
		if s.From.After(at) || !s.To.After(at) {
			continue
		}
		content, err := readSegment(ctx, g.archive.to, s)
		if err == nil {
			g.last[s.name], err = lastUntil(content, at)
		}
		if errors.Is(err, journal.ErrDamaged) { // the restore will tell it
			g.last[s.name] = journal.Commit{Number: s.Last, At: at}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// routeAfter is follow for a backup. No step follows one whose commits are not recorded.
func (g *graph) routeAfter(b Backup) *route {
	e, ok := endOfBackup(b)
	if !ok {
		return &route{}
	}
	return g.follow(e)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// plan returns the backup and the segments that lead to the latest time up to at; the zero time means the newest
// commit. The error tells that the state at that time is not known.
func (g *graph) plan(ctx context.Context, at time.Time) (base Backup, steps []step, err error) {
	if err := g.setLimit(ctx, at); err != nil {
		return base, nil, err
	}
	var best *route
	reached := time.Time{}
	for _, b := range g.bases { // of several that reach the same time, the newest
		r := g.routeAfter(b)
		to := r.to
		if !b.Manifest.MadeAt.After(g.limit) {
			to = later(b.Manifest.MadeAt, to)
		} else if !at.IsZero() && to.IsZero() { // else the clock was ahead
			continue
		}
		if best == nil || to.After(reached) {
			base, best, reached = b, r, to
		}
	}
	if best == nil && at.IsZero() {
		return base, nil, fmt.Errorf("%s has no undamaged backup", g.archive.to.location(""))
	}
	if best == nil {
		return base, nil, fmt.Errorf("%s has no complete backup from before that time", g.archive.to.location(""))
	}
	steps, next := best.until(at)
	if reached = base.Manifest.MadeAt; reached.After(g.limit) {
		reached = time.Time{} // the clock was ahead
	}
	whole, _ := endOfBackup(base)
	if len(steps) > 0 {
		last := steps[len(steps)-1]
		whole, reached = last.until, last.To
		if commit, split := g.last[last.name]; split {
			reached = commit.At
		}
	}
	if !at.IsZero() && !at.After(reached) {
		return base, steps, nil
	}
	err = g.checkEnd(base, whole, reached, next)
	if made := base.Manifest.MadeAt; err == nil && made.Before(at) && at.Before(g.kept) {
		err = fmt.Errorf("%s: the commits of that time were removed with old backups; %s",
			g.archive.to.location(""), restoreUntil(made))
	}
	return base, steps, err
}

// until returns the steps that have a commit up to a time, the limit; the zero time means all. next is not zero if the
// route goes on: it has a commit between the time and next.
func (r *route) until(at time.Time) (steps []step, next time.Time) {
	for ; r.step.name != "" && (at.IsZero() || !r.to.IsZero()); r = r.next {
		steps = append(steps, r.step)
	}
	next = r.step.To
	if n := len(steps); n > 0 && !at.IsZero() && steps[n-1].To.After(at) {
		next = steps[n-1].To
	}
	return steps, next
}

// checkEnd returns an error if commits may be missing after the end of the steps, which was reached at a time: a later
// backup or segment does not follow from what is known up to there. If next is not zero, the route goes on, and only
// those from before it count.
func (g *graph) checkEnd(base Backup, whole end, reached, next time.Time) error {
	made := base.Manifest.MadeAt
	unexplained := func(name string) error {
		until := reached
		if until.IsZero() {
			until = made
		}
		return fmt.Errorf("%s: the commits before it are missing; %s", g.archive.to.location(name), restoreUntil(until))
	}
	beyond := func(at time.Time) bool { return !next.IsZero() && !at.Before(next) }
	follows := map[string]bool{}
	for e := range g.reach(func(b Backup) bool { return b.Name == base.Name || !b.Manifest.MadeAt.After(reached) }) {
		for _, s := range g.next[e] {
			follows[s.name] = true
		}
	}
	for _, s := range g.all {
		follows := follows[s.name] || s.From.After(g.limit) && g.known[startOf(s)]
		// After the clock was set back, a segment from before the time of the backup can be later.
		later := s.To.After(reached) && (s.To.After(made) || s.First-1 > whole.commits)
		if later && !follows && !beyond(s.From) {
			return unexplained(s.name)
		}
	}
	for _, b := range g.bases {
		e, recorded := endOfBackup(b)
		same := b.Name == base.Name || e == whole || !recorded && e.commits == whole.commits
		later := b.Manifest.MadeAt.After(reached) && !beyond(b.Manifest.MadeAt)
		if later && !same && (!recorded || !g.known[e]) {
			return unexplained(b.Name)
		}
	}
	return nil
}

// isBackup reports whether a backup has an end.
func (g *graph) isBackup(e end) bool {
	return slices.ContainsFunc(g.bases, func(b Backup) bool { of, ok := endOfBackup(b); return ok && of == e })
}

// leads reports whether a backup and segments lead to an end.
func (g *graph) leads(to end) bool { return g.reach(func(Backup) bool { return true })[to] }

// reach returns the ends that those backups which satisfy a condition, and segments, lead to.
func (g *graph) reach(from func(Backup) bool) (ends map[end]bool) {
	ends = map[end]bool{}
	var visit func(e end)
	visit = func(e end) {
		if !ends[e] {
			ends[e] = true
			g.after(e, func(s step) { visit(s.until) })
		}
	}
	for _, b := range g.bases {
		if e, recorded := endOfBackup(b); recorded && from(b) {
			visit(e)
		}
	}
	return ends
}
