package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	all     []segment // sorted by their first commits, the longest first

	next   map[end][]segment // those that start at an end or have it inside
	known  map[end]bool      // the ends of segments, and those that were found inside one
	exits  map[string][]end  // inside a segment, by its name, at which another one starts
	routes map[end]*route    // that were found
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
	to   time.Time // the latest time that it reaches
}

// graph reads the lists of a destination. The error is that it has no complete backup, or backups of several stores.
func (a *Archive) graph(ctx context.Context) (g *graph, err error) {
	files, err := a.to.list(ctx, a.names.prefix())
	if err != nil {
		return nil, err
	}
	var bases []Backup
	var faults []string
	stores := map[string]bool{}
	for _, f := range files {
		b, ok := a.names.named(f.name)
		if !ok {
			continue
		}
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
	if err == nil {
		g.faults = faults
	}
	return g, err
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
	for e, starts := range wanted {
		for _, s := range g.all {
			if s.First > e.commits || e.commits >= s.Last {
				continue
			}
			has, err := g.archive.hasEnd(ctx, s, e)
			if err != nil {
				return err
			}
			if !has {
				continue
			}
			g.known[e] = true
			g.next[e] = append(g.next[e], s)
			if starts {
				g.exits[s.name] = append(g.exits[s.name], e)
			}
		}
	}
	return nil
}

// hasEnd reports whether a commit of a segment has that history after it. A damaged segment has none.
func (a *Archive) hasEnd(ctx context.Context, s segment, e end) (has bool, err error) {
	key := inner{s.name, e}
	a.mu.Lock()
	has, known := a.inner[key]
	a.mu.Unlock()
	if known {
		return has, nil
	}
	content, err := readSegment(ctx, a.to, s)
	if err != nil {
		return false, err
	}
	_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
		if c.Number < e.commits {
			return nil
		}
		has = after.Short() == e.history
		return errFound
	})
	if err != nil && !errors.Is(err, errFound) && !errors.Is(err, journal.ErrDamaged) {
		return false, err
	}
	const innerMax = 10_000
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.inner) == innerMax {
		clear(a.inner)
	}
	a.inner[key] = has
	return has, nil
}

// errFound ends journal.Read.
var errFound = errors.New("found")

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

// follow returns the route after an end that leads to the latest time up to at; the zero time means any time.
func (g *graph) follow(from end, at time.Time) *route {
	if found := g.routes[from]; found != nil {
		return found
	}
	best := &route{}
	g.after(from, func(s step) {
		r := &route{s, g.follow(s.until, at), time.Time{}}
		switch {
		case at.IsZero() || !s.To.After(at):
			r.to = later(r.next.to, s.To)
		case !s.From.After(at):
			r.to = at
		default:
			r.to = r.next.to
		}
		if best.step.name == "" || r.to.After(best.to) {
			best = r
		}
	})
	g.routes[from] = best
	return best
}

// steps returns the steps of the route after a backup to the newest commit.
func (g *graph) steps(b Backup) (steps []step) {
	g.routes = map[end]*route{}
	return g.routeAfter(b, time.Time{}).steps()
}

func (r *route) steps() (steps []step) {
	for ; r.step.name != ""; r = r.next {
		steps = append(steps, r.step)
	}
	return steps
}

// routeAfter is follow for a backup. No step follows one whose commits are not recorded.
func (g *graph) routeAfter(b Backup, at time.Time) *route {
	e, ok := endOfBackup(b)
	if !ok {
		return &route{}
	}
	return g.follow(e, at)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// plan returns the backup and the segments that lead to the latest time up to at; the zero time means the newest
// commit. The error tells that the state at that time is not known.
func (g *graph) plan(at time.Time) (base Backup, steps []step, err error) {
	g.routes = map[end]*route{}
	var best *route
	reached := time.Time{}
	for _, b := range g.bases { // of several that reach the same time, the newest
		if !at.IsZero() && b.Manifest.MadeAt.After(at) {
			continue
		}
		r := g.routeAfter(b, at)
		to := r.to
		if checkTime(b) == nil { // else the clock was ahead
			to = later(b.Manifest.MadeAt, to)
		}
		if best == nil || to.After(reached) {
			base, best, reached = b, r, to
		}
	}
	if best == nil {
		return base, nil, fmt.Errorf("%s has no complete backup from before that time", g.archive.to.location(""))
	}
	steps = best.steps()
	whole, _ := endOfBackup(base)
	if n := len(steps); n > 0 {
		whole = steps[n-1].until
	}
	cut := false
	for n := len(steps); n > 0 && !at.IsZero() && steps[n-1].From.After(at); n-- {
		steps, cut = steps[:n-1], true
	}
	if n := len(steps); cut || n > 0 && !at.IsZero() && steps[n-1].To.After(at) {
		return base, steps, nil // the next commit began after that time
	}
	return base, steps, g.checkEnd(base, whole, reached, at)
}

// checkEnd returns an error if commits may be missing between the end of all known steps and a time: a later backup or
// segment does not follow from anything that is known.
func (g *graph) checkEnd(base Backup, whole end, reached, at time.Time) error {
	if !at.IsZero() && !at.After(reached) {
		return nil
	}
	unexplained := func(name string) error {
		return fmt.Errorf("%s: the commits before it are missing; %s", g.archive.to.location(name), restoreUntil(reached))
	}
	for _, s := range g.all {
		if start := startOf(s); s.To.After(reached) && !g.isBackup(start) && !g.known[start] {
			return unexplained(s.name)
		}
	}
	for _, b := range g.bases {
		e, recorded := endOfBackup(b)
		same := b.Name == base.Name || e == whole || !recorded && e.commits == whole.commits
		if b.Manifest.MadeAt.After(reached) && !same && (!recorded || !g.known[e]) {
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
func (g *graph) leads(to end) (found bool) {
	seen := map[end]bool{}
	var visit func(e end)
	visit = func(e end) {
		found = found || e == to
		if !seen[e] && !found {
			seen[e] = true
			g.after(e, func(s step) { visit(s.until) })
		}
	}
	for _, b := range g.bases {
		if e, ok := endOfBackup(b); ok {
			visit(e)
		}
	}
	return found
}
