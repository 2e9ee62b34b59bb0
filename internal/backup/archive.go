package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
)

// Archive is a destination with the backups and the segments of a store, for commands that need no store.
type Archive struct {
	to    destination
	names series
}

// OpenArchive returns the archive of the store that a destination has; of several stores, of the one with the file
// name of db.
func OpenArchive(ctx context.Context, address string, bucket s3.Config, db string) (*Archive, error) {
	to, err := newDestination(Config{Destination: address, S3: bucket})
	if err != nil {
		return nil, err
	}
	files, err := to.list(ctx, "")
	if err != nil {
		return nil, err
	}
	found := map[series]bool{}
	for _, f := range files {
		if n, ok := seriesOfBackup(f.name); ok {
			found[n] = true
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("%s has no scheduled backup; name a backup, or the destination of a server", address)
	case len(found) == 1:
		for n := range found {
			return &Archive{to, n}, nil
		}
	case found[seriesOf(db)]:
		return &Archive{to, seriesOf(db)}, nil
	}
	all := slices.Sorted(maps.Keys(found))
	return nil, fmt.Errorf("%s has backups of %d stores: restore one to a file with its name, such as --db %s.db",
		address, len(all), all[0])
}

// Recovered describes a restored store.
type Recovered struct {
	Backup   string    `json:"backup"`   // name of the backup that the restore began with
	Segments int       `json:"segments"` // number of segments after it
	Commits  int64     `json:"commits"`  // number of the last commit
	At       time.Time `json:"at"`       // its time; without a segment, that of the backup
	Plants   int64     `json:"plants"`
	Faults   []string  `json:"faults,omitempty"` // damaged backups that the restore left out
}

// Restore restores the store at path as it was at a time: with every commit that was acknowledged before, and none
// that began later. The zero time means the newest commit. Like backupfile.RestoreFrom, it creates the whole store or
// changes nothing.
//
// The error names the segment that is missing or damaged, and the last second before it, which another call can
// restore.
func (a *Archive) Restore(
	ctx context.Context, path string, at time.Time, replace bool, progress backupfile.Progress,
) (r Recovered, err error) {
	bases, err := a.bases(ctx, at)
	if err != nil {
		return r, err
	}
	var faults []string
	for _, base := range bases {
		err = retryMissing(func() error {
			steps, err := a.steps(ctx, base, at)
			if err == nil {
				err = a.checkComplete(ctx, base, steps, at)
			}
			if err == nil {
				r, err = a.restore(ctx, base, steps, path, at, replace, progress)
			}
			return err
		})
		var damage backupfile.ManifestError
		if !errors.As(err, &damage) {
			break
		}
		// The segments after an older backup have the same commits.
		faults = append(faults, fmt.Sprintf("%s: %v", a.to.location(base.Name), err))
	}
	if r.Faults = faults; err != nil && len(faults) > 0 {
		err = fmt.Errorf("%s: %w", strings.Join(faults, "; "), err)
	}
	return r, err
}

// retryMissing repeats do while a file is missing, a few times: a server may have merged or removed a segment since
// the list.
func retryMissing(do func() error) (err error) {
	for range 3 {
		if err = do(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// restore restores a backup and the steps after it.
func (a *Archive) restore(
	ctx context.Context, base Backup, steps []step, path string, at time.Time, replace bool, progress backupfile.Progress,
) (r Recovered, err error) {
	in, err := a.to.open(ctx, base.Name)
	if err != nil {
		return r, err
	}
	defer in.Close()
	r = Recovered{Backup: base.Name, Segments: len(steps), At: base.Manifest.MadeAt}
	commits := func(to *backupfile.Replay) error {
		for _, step := range steps {
			if err := a.repeat(ctx, step, at, to, &r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(steps) == 0 {
		commits = nil
	}
	got, err := backupfile.RestoreFrom(ctx, in, &base.Manifest, path, replace, progress, commits)
	r.Commits, r.Plants = got.Commits, got.Plants
	return r, err
}

// repeat repeats commits of a segment: those after the last one of the store, up to the end of the step and the time.
func (a *Archive) repeat(ctx context.Context, s step, at time.Time, to *backupfile.Replay, r *Recovered) error {
	content, err := a.check(ctx, s.segment) // all of it first
	if errors.Is(err, journal.ErrDamaged) {
		err = fmt.Errorf("%s: %w; %s", a.to.location(s.name), err, restoreUntil(r.At))
	}
	if err != nil {
		return err
	}
	until := s.until
	if !at.IsZero() {
		last, err := lastBefore(content, at)
		if err != nil {
			return err
		}
		until = min(until, last)
	}
	_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
		have, history := to.Commits()
		switch {
		case c.Number > until:
			return nil
		case c.Number > have:
			r.At = c.At
			return to.Commit(c, after)
		case c.Number == have && after != history:
			return backupfile.ErrOtherHistory
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", a.to.location(s.name), err)
	}
	return nil
}

// lastBefore returns the number of the last commit of a segment that began before a time; 0 without one.
func lastBefore(content []byte, at time.Time) (number int64, err error) {
	_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, _ journal.History) error {
		if !c.At.After(at) {
			number = c.Number
		}
		return nil
	})
	return number, err
}

// restoreUntil tells how to restore what is whole before a time.
func restoreUntil(at time.Time) string {
	return "to restore the store as it was before, add --at " + at.UTC().Truncate(time.Second).Format(time.RFC3339)
}

// step is a segment whose commits up to a number are repeated.
type step struct {
	segment

	until int64
}

// list returns the segments that begin before a time; the zero time means all.
func (a *Archive) list(ctx context.Context, at time.Time) ([]segment, error) {
	all, err := listSegments(ctx, a.to, a.names)
	if !at.IsZero() {
		all = slices.DeleteFunc(all, func(s segment) bool { return s.From.After(at) })
	}
	return all, err
}

// steps returns the segments that lead from a backup to a time; the zero time means the newest commit.
func (a *Archive) steps(ctx context.Context, base Backup, at time.Time) (steps []step, err error) {
	all, err := a.list(ctx, at)
	if err != nil || base.Manifest.History == "" {
		return nil, err
	}
	g := graph{archive: a, all: all, routes: map[end]*route{}, read: map[string]map[int64]journal.History{}}
	r, err := g.from(ctx, end{base.Manifest.Commits, base.Manifest.History})
	for ; r != nil && r.step.name != ""; r = r.next {
		steps = append(steps, r.step)
	}
	return steps, err
}

// checkComplete returns an error if a segment begins after the last of the steps after a backup, and before a time.
func (a *Archive) checkComplete(ctx context.Context, base Backup, steps []step, at time.Time) error {
	reached := base.Manifest.MadeAt
	for _, s := range steps {
		reached = later(reached, s.To)
	}
	all, err := a.list(ctx, at)
	for _, s := range all {
		if s.From.After(reached) {
			return fmt.Errorf("%s: the commits before it are missing; %s", a.to.location(s.name), restoreUntil(reached))
		}
	}
	return err
}

// bases returns the backups that were made before a time, newest first: at least one, or an error.
func (a *Archive) bases(ctx context.Context, at time.Time) (bases []Backup, err error) {
	files, err := a.to.list(ctx, a.names.prefix())
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, f := range files {
		b, ok := a.names.named(f.name)
		if !ok {
			continue
		}
		if b.Manifest, err = a.to.manifest(ctx, b.Name); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v; ", a.to.location(b.Name), err))
		} else if at.IsZero() || !b.Manifest.MadeAt.After(at) {
			bases = append(bases, b)
		}
	}
	if len(bases) == 0 {
		return nil, fmt.Errorf("%s%s has no complete backup from before that time",
			strings.Join(faults, ""), a.to.location(""))
	}
	slices.SortFunc(bases, func(x, y Backup) int { return y.Manifest.MadeAt.Compare(x.Manifest.MadeAt) })
	return bases, ctx.Err()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// graph finds the segments that follow each other. Several can follow the same commit: a killed server may store
// commits twice, and a restored store has another future.
type graph struct {
	archive *Archive
	all     []segment                            // sorted by their commits
	routes  map[end]*route                       // that were found
	read    map[string]map[int64]journal.History // of segments, by name
}

// route is a step with the steps after it. The empty step is the end.
type route struct {
	step step
	next *route
	to   time.Time // the latest time on the route
}

// from returns the route after a commit that leads to the latest time.
func (g *graph) from(ctx context.Context, at end) (best *route, err error) {
	if known := g.routes[at]; known != nil {
		return known, nil
	}
	best = &route{}
	for _, s := range g.all {
		if s.First > at.commits+1 {
			break
		}
		if s.Last <= at.commits {
			continue
		}
		follows := s.Follows(at.commits, at.history)
		if s.First <= at.commits { // the commit may be inside
			follows, err = g.has(ctx, s, at)
		}
		if err != nil {
			return nil, err
		}
		if !follows {
			continue
		}
		ends, err := g.endsOf(ctx, s, at.commits)
		if err != nil {
			return nil, err
		}
		for _, e := range ends {
			next, err := g.from(ctx, e)
			if err != nil {
				return nil, err
			}
			if to := later(s.To, next.to); to.After(best.to) || best.step.name == "" {
				best = &route{step{s, e.commits}, next, to}
			}
		}
	}
	g.routes[at] = best
	return best, nil
}

// endsOf returns the ends of a segment after a commit: its last commit, and each one that another segment follows
// although that has no other start.
func (g *graph) endsOf(ctx context.Context, s segment, after int64) ([]end, error) {
	ends := []end{{s.Last, s.After}}
	for _, other := range g.all {
		inside := other.First-1 > after && other.First-1 < s.Last
		if !inside || slices.ContainsFunc(g.all, func(t segment) bool { return other.Follows(t.Last, t.After) }) {
			continue
		}
		e := end{other.First - 1, other.Before}
		ok, err := g.has(ctx, s, e)
		if err != nil {
			return nil, err
		}
		if ok {
			ends = append(ends, e)
		}
	}
	return ends, nil
}

// has reports whether a commit with that history, which may be short, is in a segment.
func (g *graph) has(ctx context.Context, s segment, e end) (bool, error) {
	known := g.read[s.name]
	if known == nil {
		content, err := readSegment(ctx, g.archive.to, s)
		if err != nil {
			return false, err
		}
		known = map[int64]journal.History{}
		_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
			known[c.Number] = after
			return nil
		})
		if err != nil && !errors.Is(err, journal.ErrDamaged) { // a restore that needs it reports the damage
			return false, err
		}
		g.read[s.name] = known
	}
	h, ok := known[e.commits]
	return ok && strings.HasPrefix(h.String(), e.history), nil
}

// Verification is the result of Archive.Verify.
type Verification struct {
	Backups  int       `json:"backups"`  // complete ones
	Segments int       `json:"segments"` // read
	Commits  int64     `json:"commits"`  // number of the last commit that a restore has
	At       time.Time `json:"at"`       // its time; without a segment, that of the newest backup

	Faults []string `json:"-"` // descriptions of the damage
}

// Verify reads all backups and segments, and detects damage and missing segments. It does not check the plants of
// backups in a bucket; a restore does. progress receives the numbers of files that are read, and of all.
func (a *Archive) Verify(ctx context.Context, progress backupfile.Progress) (v Verification, err error) {
	files, err := a.to.list(ctx, a.names.prefix())
	if err != nil {
		return v, err
	}
	files = slices.DeleteFunc(files, func(f file) bool { _, ok := a.names.named(f.name); return !ok })
	segments, err := listSegments(ctx, a.to, a.names)
	if err != nil {
		return v, err
	}
	all, done := int64(len(files)+len(segments)), int64(0)
	read := func(name string, faults []string, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && len(faults) == 0 { // a missing one was removed since the list
			faults = []string{err.Error()}
		}
		for _, fault := range faults {
			v.Faults = append(v.Faults, fmt.Sprintf("%s: %s", a.to.location(name), fault))
		}
		done++
		if progress != nil {
			progress(done, all)
		}
		return nil
	}
	for _, f := range files {
		faults, err := a.to.verify(ctx, f.name, func(string) backupfile.Progress { return nil })
		if err == nil && len(faults) == 0 {
			v.Backups++
		}
		if err := read(f.name, faults, err); err != nil {
			return v, err
		}
	}
	for _, s := range segments {
		_, err := a.check(ctx, s)
		if err == nil {
			v.Segments++
		}
		if err := read(s.name, nil, err); err != nil {
			return v, err
		}
	}
	var steps []step
	bases, err := a.bases(ctx, time.Time{})
	if err == nil {
		err = retryMissing(func() (err error) {
			if steps, err = a.steps(ctx, bases[0], time.Time{}); err != nil {
				return err
			}
			return a.checkComplete(ctx, bases[0], steps, time.Time{})
		})
	}
	if err != nil {
		v.Faults = append(v.Faults, err.Error())
		return v, ctx.Err()
	}
	v.Commits, v.At = bases[0].Manifest.Commits, bases[0].Manifest.MadeAt
	if n := len(steps); n > 0 {
		v.Commits, v.At = steps[n-1].until, steps[n-1].To
	}
	return v, nil
}

// check reads a whole segment and returns its content. The error wraps journal.ErrDamaged if it is not what its name
// says.
func (a *Archive) check(ctx context.Context, s segment) ([]byte, error) {
	content, err := readSegment(ctx, a.to, s)
	if err != nil {
		return nil, err
	}
	is, err := journal.Read(bytes.NewReader(content), func(*journal.Commit, journal.History) error { return nil })
	if err == nil && is.Name(a.names.segmentPrefix()) != s.name {
		err = fmt.Errorf("%w: it has the content of another segment", journal.ErrDamaged)
	}
	return content, err
}
