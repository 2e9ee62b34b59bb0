package backup

import (
	"bytes"
	"cmp"
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
	store string // identity of the store; empty: any

	mu        sync.Mutex                     // guards what was read before, because it never changes
	timelines map[string]timeline            // by id
	manifests map[string]backupfile.Manifest // of backups in the last list
}

// OpenArchive returns the archive of the store that a destination has; of several stores, of the one with the file
// name of db.
func OpenArchive(ctx context.Context, address string, bucket s3.Config, db string) (*Archive, error) {
	to, err := newDestination(Config{Destination: address, S3: bucket})
	if err != nil {
		return nil, err
	}
	if found, err := hasBackup(ctx, to, seriesOf(db)); err != nil || found {
		return newArchive(to, seriesOf(db), ""), err
	}
	files, err := to.list(ctx, "") // all others; the bucket may have more than the backups
	if err != nil {
		return nil, err
	}
	found := map[series]bool{}
	for _, f := range files {
		if n, ok := seriesOfBackup(f.name); ok {
			found[n] = true
		}
	}
	switch all := slices.Sorted(maps.Keys(found)); len(all) {
	case 0:
		return nil, fmt.Errorf("%s has no scheduled backup; name a backup, or the destination of a server", address)
	case 1:
		return newArchive(to, all[0], ""), nil
	default:
		return nil, fmt.Errorf("%s has backups of %d stores: restore one to a file with its name, such as --db %s.db",
			address, len(all), all[0])
	}
}

// HasBackup reports whether a destination has a backup of the store with the file name of db, complete or not.
func HasBackup(ctx context.Context, address string, bucket s3.Config, db string) (bool, error) {
	to, err := newDestination(Config{Destination: address, S3: bucket})
	if err != nil {
		return false, err
	}
	return hasBackup(ctx, to, seriesOf(db))
}

func hasBackup(ctx context.Context, to destination, names series) (bool, error) {
	files, err := to.list(ctx, names.prefix())
	return slices.ContainsFunc(files, func(f file) bool {
		b, ok := names.named(f.name)
		return ok && checkTime(b) == nil
	}), err
}

func newArchive(to destination, names series, store string) *Archive {
	return &Archive{
		to: to, names: names, store: store, timelines: map[string]timeline{}, manifests: map[string]backupfile.Manifest{},
	}
}

// files returns the files with the name of a backup, newest first, without their manifests.
func (a *Archive) files(ctx context.Context) (all []Backup, err error) {
	files, err := a.to.list(ctx, a.names.prefix())
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	for _, f := range files {
		if b, ok := a.names.named(f.name); ok {
			b.Location, b.Bytes, b.Fault = a.to.location(b.Name), f.bytes, f.fault
			all, listed[b.Name] = append(all, b), true
		}
	}
	slices.SortFunc(all, func(a, b Backup) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(b.Name, a.Name)) })
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.manifests, func(name string, _ backupfile.Manifest) bool { return !listed[name] })
	return all, nil
}

// kept returns the complete backups of the last list that retention keeps, as far as their manifests were read: a rule
// of the bucket may remove the others.
func (a *Archive) kept(scheduled int) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := map[string]bool{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(a.manifests))) {
		b, _ := a.names.named(name)
		kept[name] = a.manifests[name].Store == a.store && (b.Manual || scheduled > 0)
		if !b.Manual {
			scheduled--
		}
	}
	return kept
}

// inspect sets the manifest and the fault of a listed backup, unless it has a fault.
func (a *Archive) inspect(ctx context.Context, b *Backup) {
	if b.Fault != nil {
		return
	}
	a.mu.Lock()
	m, known := a.manifests[b.Name]
	a.mu.Unlock()
	if known {
		b.Fault = m.CheckSize(b.Bytes)
	} else if m, b.Fault = readManifest(ctx, a.to, file{name: b.Name, bytes: b.Bytes}); b.Fault == nil {
		a.mu.Lock()
		a.manifests[b.Name] = m
		a.mu.Unlock()
	}
	b.Manifest = m
	if b.Fault == nil && a.store != "" && m.Store != a.store {
		b.Fault = errOtherStore
	}
}

// Recovered describes a restored store.
type Recovered struct {
	Backup   string    `json:"backup"`   // name of the backup that the restore began with
	Segments int       `json:"segments"` // number of segments after it
	Commits  int64     `json:"commits"`  // number of the last commit
	At       time.Time `json:"at"`       // its time, or the time of the backup without a segment
	Plants   int64     `json:"plants"`
	Timeline string    `json:"timeline"`           // of the last commit; empty if no server made the backup
	Faults   []string  `json:"faults,omitempty"`   // damaged backups that the restore left out
	LeftOut  []string  `json:"left_out,omitempty"` // descriptions of the commits that are not in the newest state
}

// Point is a state of the store that a restore can return. The zero value is the newest state of the owner.
type Point struct {
	Timeline string    // empty: that of the owner
	At       time.Time // the zero time: the newest commit
}

// Restore restores the store at path as it was at a point: with every commit that was acknowledged before, and none
// that began later. Like backupfile.RestoreFrom, it creates the whole store or changes nothing.
//
// The error names the segment that is missing or damaged, and the last time before it, which another call can
// restore.
func (a *Archive) Restore(
	ctx context.Context, path string, point Point, replace bool, progress backupfile.Progress,
) (r Recovered, err error) {
	err = retryMissing(func() (err error) {
		c, err := a.contents(ctx)
		if err != nil {
			return err
		}
		r.Faults = c.faults()
		for {
			p, err := c.planFor(point)
			if err != nil {
				return err
			}
			faults := r.Faults
			r, err = a.restore(ctx, p, path, replace, progress)
			r.Faults, r.LeftOut = faults, p.leftOut
			if !isDamage(err) {
				return err
			}
			// The segments after an older backup have the same commits.
			r.Faults = append(r.Faults, fmt.Sprintf("%s: %v", a.to.location(p.base.Name), err))
			c.forget(p.base)
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

// restore restores the store of a plan.
func (a *Archive) restore(
	ctx context.Context, p plan, path string, replace bool, progress backupfile.Progress,
) (r Recovered, err error) {
	in, err := a.to.open(ctx, p.base.Name)
	if err != nil {
		return r, err
	}
	defer in.Close()
	r = Recovered{Backup: p.base.Name, At: p.base.Manifest.MadeAt, Timeline: p.timeline}
	later := backupfile.Later{Timeline: p.timeline, Newest: p.newest}
	if len(p.steps) > 0 {
		later.Repeat = func(to *backupfile.Replay) error { return a.repeatAll(ctx, p, to, &r) }
	}
	got, err := backupfile.RestoreFrom(ctx, in, &p.base.Manifest, path, replace, progress, later)
	r.Commits, r.Plants = got.Commits, got.Plants
	return r, err
}

// repeatAll repeats the commits of a plan. A server may merge segments meanwhile: the merged one has those commits too.
func (a *Archive) repeatAll(ctx context.Context, p plan, to *backupfile.Replay, r *Recovered) error {
	for begun := int64(-1); ; {
		var err error
		for _, s := range p.steps {
			if err = a.repeat(ctx, p, s, to, r); err != nil {
				break
			}
		}
		have, _ := to.Commits()
		if !errors.Is(err, fs.ErrNotExist) || have == begun {
			return err
		}
		begun = have
		c, errList := a.contentsWith(ctx, nil)
		if errList != nil {
			return errList
		}
		again, errPlan := c.stepsAfter(c.line(p.timeline), have, r.At, p.at)
		if errPlan != nil || len(again) == 0 { // it has removed some
			return cmp.Or(errPlan, err)
		}
		p.steps = again
	}
}

// repeat repeats commits of a step: those after the last one of the store, up to the end of the step and the time.
func (a *Archive) repeat(ctx context.Context, p plan, s step, to *backupfile.Replay, r *Recovered) error {
	content, err := a.readSegment(ctx, s.segment)
	if err != nil {
		return err
	}
	whole := r.At
	if r.Segments == 0 {
		whole = until(p.base.Manifest)
	}
	err = a.each(s.segment, content, func(c *journal.Commit, after journal.History) error {
		have, history := to.Commits()
		switch {
		case c.Number > s.until, !p.at.IsZero() && c.At.After(p.at):
			return nil
		case c.Number > have:
			r.At = c.At
			return to.Commit(c, after)
		case c.Number == have && after != history:
			return backupfile.ErrOtherHistory
		}
		return nil
	})
	if err != nil && !errors.Is(err, journal.ErrDamaged) { // a commit of a damaged segment may not apply either
		err = cmp.Or(a.each(s.segment, content, func(*journal.Commit, journal.History) error { return nil }), err)
	}
	if errors.Is(err, journal.ErrDamaged) {
		err = fmt.Errorf("%w; %s", err, restoreUntil(whole))
	}
	if err == nil {
		r.Segments++
	}
	return err
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

	LeftOut []string `json:"left_out,omitempty"` // descriptions of the commits that are in no restore of the newest state
	Faults  []string `json:"-"`                  // descriptions of the damage
}

// Verify reads all backups, and the segments that a restore may read, and detects damage and missing segments. It does
// not check the plants of backups in a bucket; a restore does. progress receives the number of files that are read, and
// that of all.
func (a *Archive) Verify(ctx context.Context, progress backupfile.Progress) (v Verification, err error) {
	files, err := a.files(ctx)
	if err != nil {
		return v, err
	}
	contents, err := a.contentsWith(ctx, nil)
	if err != nil {
		return v, err
	}
	segments := slices.Concat(slices.Collect(maps.Values(contents.needed))...)
	all, done := int64(len(files)+len(segments)), int64(0)
	result := func(name string, faults []string, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && len(faults) == 0 { // a missing one was removed since the list
			faults = []string{err.Error()}
		}
		for _, fault := range faults {
			at := a.to.location(name) + ": "
			v.Faults = append(v.Faults, at+strings.TrimPrefix(fault, at))
		}
		done++
		if progress != nil {
			progress(done, all)
		}
		return nil
	}
	for _, b := range files {
		var faults []string
		if a.inspect(ctx, &b); b.Fault == nil {
			faults, b.Fault = a.to.verify(ctx, b.Name, b.Manifest, func(string) backupfile.Progress { return nil })
		}
		if b.Fault == nil && len(faults) == 0 {
			v.Backups++
		}
		if err := result(b.Name, faults, b.Fault); err != nil {
			return v, err
		}
	}
	for _, s := range segments {
		err := a.check(ctx, s)
		if err == nil {
			v.Segments++
		}
		if err := result(s.name, nil, err); err != nil {
			return v, err
		}
	}
	err = retryMissing(func() error {
		c, err := a.contents(ctx)
		if err != nil {
			return err
		}
		p, err := c.planFor(Point{})
		v.Commits, v.At = p.end()
		v.LeftOut = p.leftOut
		return err
	})
	if err != nil {
		v.Faults = append(v.Faults, err.Error())
	}
	return v, ctx.Err()
}

// readSegment returns the content of a segment.
func (a *Archive) readSegment(ctx context.Context, s segment) ([]byte, error) {
	const bytesMax = 512 << 20 // a segment has about shipBytes or mergedBytes, unless a single commit is larger
	return read(ctx, a.to, s.name, bytesMax)
}

// check reads a whole segment. The error wraps journal.ErrDamaged if it is not what its name says.
func (a *Archive) check(ctx context.Context, s segment) error {
	content, err := a.readSegment(ctx, s)
	if err == nil {
		err = a.each(s, content, func(*journal.Commit, journal.History) error { return nil })
	}
	return err
}

// each calls do with the commits in the content of a segment, as journal.Read.
func (a *Archive) each(s segment, content []byte, do func(*journal.Commit, journal.History) error) error {
	is, err := journal.Read(bytes.NewReader(content), do)
	if err == nil && is.Name(a.names.segmentPrefix()) != s.name {
		err = fmt.Errorf("%w: it has the content of another segment", journal.ErrDamaged)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", a.to.location(s.name), err)
	}
	return err
}
