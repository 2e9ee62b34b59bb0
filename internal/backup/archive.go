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

	follows bool // a standby reads it, so that errors have no advice for a restore by a command

	mu        sync.Mutex                     // guards what was read before, because it never changes
	timelines map[string]timeline            // by id
	manifests map[string]backupfile.Manifest // by the backup's name, for the last list
	gaps      []string                       // of the last list: the names of the objects after them
}

// OpenArchive returns the archive of the store that a destination has. If it has several stores, db names the file of
// the right one.
func OpenArchive(ctx context.Context, address string, bucket s3.Config, db string) (*Archive, error) {
	to, err := newDestination(Config{Destination: address, S3: bucket})
	if err != nil {
		return nil, err
	}
	return openArchive(ctx, to, db)
}

func openArchive(ctx context.Context, to destination, db string) (*Archive, error) {
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
	address := to.location("")
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
	listed := map[string]bool{}
	for _, f := range files {
		listed[f.name] = true
	}
	return slices.ContainsFunc(files, func(f file) bool {
		b, ok := names.named(f.name) // also from a machine whose clock is ahead
		return ok && (checkTime(b) == nil || listed[f.name+backupfile.ManifestSuffix])
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
// not check the plants of backups in a bucket; a restore does. progress receives the number of files that were read,
// and the number of all.
func (a *Archive) Verify(ctx context.Context, progress backupfile.Progress) (v Verification, err error) {
	var c *contents
	err = retryMissing(func() (err error) { c, err = a.contents(ctx); return err })
	if err != nil {
		return v, err
	}
	segments := slices.Concat(slices.Collect(maps.Values(c.needed))...)
	all, done := int64(len(c.files)+len(segments)), int64(0)
	result := func(name string, count *int, faults []string, err error) {
		switch {
		case err == nil && len(faults) == 0:
			*count++
		case err != nil && !errors.Is(err, fs.ErrNotExist) && len(faults) == 0: // a missing one was removed since the list
			faults = []string{err.Error()}
		}
		for _, fault := range faults {
			at := a.to.location(name) + ": "
			v.Faults = append(v.Faults, at+strings.TrimPrefix(fault, at))
		}
		if done++; progress != nil {
			progress(done, all)
		}
	}
	for _, b := range c.files {
		var faults []string
		if b.Fault == nil {
			faults, b.Fault = a.to.verify(ctx, b.Name, b.Manifest, func(string) backupfile.Progress { return nil })
		}
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		result(b.Name, &v.Backups, faults, b.Fault)
	}
	for _, s := range segments {
		err := a.check(ctx, s)
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		result(s.name, &v.Segments, nil, err)
	}
	p, err := c.planFor(Point{})
	if err != nil {
		v.Faults = append(v.Faults, err.Error())
	}
	v.Commits, v.At = p.end()
	if len(p.steps) == 0 {
		v.At = p.base.Manifest.MadeAt
	}
	v.LeftOut = p.leftOut
	return v, nil
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
