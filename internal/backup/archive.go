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
	"sync"
	"time"

	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
)

// Archive is a destination with the backups and the segments of a store, for commands that need no store.
type Archive struct {
	to    destination
	names series

	mu    sync.Mutex
	inner map[inner]bool // results of inside, because segments never change; guarded by mu
}

// inner is an end that a segment may have inside.
type inner struct {
	segment string // name
	end     end
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
			return newArchive(to, n), nil
		}
	case found[seriesOf(db)]:
		return newArchive(to, seriesOf(db)), nil
	}
	all := slices.Sorted(maps.Keys(found))
	return nil, fmt.Errorf("%s has backups of %d stores: restore one to a file with its name, such as --db %s.db",
		address, len(all), all[0])
}

// HasBackup reports whether a destination has a backup of the store with the file name of db, complete or not.
func HasBackup(ctx context.Context, address string, bucket s3.Config, db string) (bool, error) {
	to, err := newDestination(Config{Destination: address, S3: bucket})
	if err != nil {
		return false, err
	}
	names := seriesOf(db)
	files, err := to.list(ctx, names.prefix())
	return slices.ContainsFunc(files, func(f file) bool {
		b, ok := names.named(f.name)
		return ok && checkTime(b) == nil
	}), err
}

func newArchive(to destination, names series) *Archive {
	return &Archive{to: to, names: names, inner: map[inner]bool{}}
}

// Recovered describes a restored store.
type Recovered struct {
	Backup   string    `json:"backup"`   // name of the backup that the restore began with
	Segments int       `json:"segments"` // number of segments after it
	Commits  int64     `json:"commits"`  // number of the last commit
	At       time.Time `json:"at"`       // its time, or the time of the backup without a segment
	Plants   int64     `json:"plants"`
	Faults   []string  `json:"faults,omitempty"` // damaged backups that the restore left out
}

// Restore restores the store at path as it was at a time: with every commit that was acknowledged before, and none
// that began later. The zero time means the newest commit. Like backupfile.RestoreFrom, it creates the whole store or
// changes nothing.
//
// The error names the segment that is missing or damaged, and the last time before it, which another call can
// restore.
func (a *Archive) Restore(
	ctx context.Context, path string, at time.Time, replace bool, progress backupfile.Progress,
) (r Recovered, err error) {
	err = retryMissing(func() (err error) {
		g, err := a.graph(ctx)
		if err != nil {
			return err
		}
		r.Faults = g.faults
		for {
			base, steps, err := g.plan(ctx, at)
			if err != nil {
				return err
			}
			faults := r.Faults
			r, err = a.restore(ctx, base, steps, path, at, replace, progress)
			r.Faults = faults
			if !isDamage(err) {
				return err
			}
			// The segments after an older backup have the same commits.
			r.Faults = append(r.Faults, fmt.Sprintf("%s: %v", a.to.location(base.Name), err))
			g.forget(base)
		}
	})
	if err != nil && len(r.Faults) > 0 {
		err = fmt.Errorf("%s: %w", strings.Join(r.Faults, "; "), err)
	}
	return r, err
}

// isDamage reports whether an error is about a backup that is incomplete or damaged.
func isDamage(err error) bool {
	_, incomplete := errors.AsType[backupfile.ManifestError](err)
	_, damaged := errors.AsType[backupfile.DamageError](err)
	return incomplete || damaged
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
	r = Recovered{Backup: base.Name, At: base.Manifest.MadeAt}
	commits := func(to *backupfile.Replay) error {
		last := steps[len(steps)-1].until.commits
		for begun := int64(-1); ; {
			err := a.repeatAll(ctx, steps, at, to, &r)
			have, history := to.Commits()
			if !errors.Is(err, fs.ErrNotExist) || have == begun {
				return err
			}
			// A server has merged segments since the list. The merged one has those commits too.
			begun = have
			from := base
			from.Manifest.Commits, from.Manifest.History = have, history.String()
			again, errList := a.stepsAfter(ctx, from, at)
			if errList != nil {
				return errList
			}
			if len(again) == 0 || again[len(again)-1].until.commits < last { // it has removed some
				return err
			}
			steps = again
		}
	}
	if len(steps) == 0 {
		commits = nil
	}
	got, err := backupfile.RestoreFrom(ctx, in, &base.Manifest, path, replace, progress, commits)
	r.Commits, r.Plants = got.Commits, got.Plants
	return r, err
}

// stepsAfter returns the steps after a backup up to a time; the zero time means the newest commit.
func (a *Archive) stepsAfter(ctx context.Context, b Backup, at time.Time) (steps []step, err error) {
	g, err := a.graphOf(ctx, []Backup{b})
	if err == nil {
		err = g.setLimit(ctx, at)
	}
	if err == nil {
		steps, _ = g.routeAfter(b).until(at)
	}
	return steps, err
}

// repeatAll repeats the commits of steps up to a time.
func (a *Archive) repeatAll(
	ctx context.Context, steps []step, at time.Time, to *backupfile.Replay, r *Recovered,
) error {
	for i, step := range steps {
		until := at
		if i < len(steps)-1 {
			until = time.Time{} // a later step has commits from before that time, so the clock was set back
		}
		if err := a.repeat(ctx, step, until, to, r); err != nil {
			return err
		}
	}
	return nil
}

// repeat repeats commits of a segment: those after the last one of the store, up to the end of the step and the time.
func (a *Archive) repeat(ctx context.Context, s step, at time.Time, to *backupfile.Replay, r *Recovered) error {
	_, content, err := a.check(ctx, s.segment) // all of it first
	if errors.Is(err, journal.ErrDamaged) {
		err = fmt.Errorf("%s: %w; %s", a.to.location(s.name), err, restoreUntil(r.At))
	}
	if err != nil {
		return err
	}
	until := s.until.commits
	if !at.IsZero() {
		last, err := lastUntil(content, at)
		if err != nil {
			return err
		}
		until = min(until, last.Number)
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
	r.Segments++
	return nil
}

// lastUntil returns the last commit of a segment up to a time, without its changes; the zero value without one.
func lastUntil(content []byte, at time.Time) (last journal.Commit, err error) {
	_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, _ journal.History) error {
		if !c.At.After(at) {
			last.Number, last.At = c.Number, c.At
		}
		return nil
	})
	return last, err
}

// restoreUntil tells how to restore what is whole before a time.
func restoreUntil(at time.Time) string {
	return "to restore the store as it was before, add --at " + at.UTC().Format(time.RFC3339Nano)
}

// Verification is the result of Archive.Verify.
type Verification struct {
	Backups  int       `json:"backups"`  // complete ones
	Segments int       `json:"segments"` // read
	Commits  int64     `json:"commits"`  // number of the last commit that a restore has
	At       time.Time `json:"at"`       // its time, or the time of the newest backup without a segment

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
		_, _, err := a.check(ctx, s)
		if err == nil {
			v.Segments++
		}
		if err := read(s.name, nil, err); err != nil {
			return v, err
		}
	}
	err = retryMissing(func() error {
		g, err := a.graph(ctx)
		if err != nil {
			return err
		}
		base, steps, err := g.plan(ctx, time.Time{})
		v.Commits, v.At = base.Manifest.Commits, base.Manifest.MadeAt
		if n := len(steps); n > 0 {
			v.Commits, v.At = steps[n-1].until.commits, steps[n-1].To
		}
		return err
	})
	if err != nil {
		v.Faults = append(v.Faults, err.Error())
	}
	return v, ctx.Err()
}

// check reads a whole segment, and returns what its first line has, and its content. The error wraps journal.ErrDamaged
// if it is not what its name says.
func (a *Archive) check(ctx context.Context, s segment) (is journal.Segment, content []byte, err error) {
	if content, err = readSegment(ctx, a.to, s); err != nil {
		return is, nil, err
	}
	is, err = journal.Read(bytes.NewReader(content), func(*journal.Commit, journal.History) error { return nil })
	if err == nil && is.Name(a.names.segmentPrefix()) != s.name {
		err = fmt.Errorf("%w: it has the content of another segment", journal.ErrDamaged)
	}
	return is, content, err
}
